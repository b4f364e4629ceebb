module @pmap_step_ attributes {mhlo.num_replicas = 4 : i32, mhlo.num_partitions = 1 : i32} {
  func.func public @main(%arg0: tensor<8xf32> {tf.aliasing_output = 0 : i32}, %arg1: tensor<16x8xf32>, %arg2: tensor<16xf32>) -> (tensor<8xf32>) {
    %0 = "stablehlo.dot_general"(%arg1, %arg0) <{dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [], rhs_batching_dimensions = [], lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]}> : (tensor<16x8xf32>, tensor<8xf32>) -> (tensor<16xf32>)
    %1 = "stablehlo.subtract"(%0, %arg2) : (tensor<16xf32>, tensor<16xf32>) -> (tensor<16xf32>)
    %2 = "stablehlo.constant"() <{value = dense<2.00000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %3 = "stablehlo.broadcast_in_dim"(%2) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> (tensor<16xf32>)
    %4 = "stablehlo.multiply"(%1, %3) : (tensor<16xf32>, tensor<16xf32>) -> (tensor<16xf32>)
    %5 = "stablehlo.constant"() <{value = dense<6.25000000e-02> : tensor<f32>}> : () -> tensor<f32>
    %6 = "stablehlo.broadcast_in_dim"(%5) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> (tensor<16xf32>)
    %7 = "stablehlo.multiply"(%6, %4) : (tensor<16xf32>, tensor<16xf32>) -> (tensor<16xf32>)
    %8 = "stablehlo.dot_general"(%7, %arg1) <{dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [], rhs_batching_dimensions = [], lhs_contracting_dimensions = [0], rhs_contracting_dimensions = [0]>, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]}> : (tensor<16xf32>, tensor<16x8xf32>) -> (tensor<8xf32>)
    %9 = "stablehlo.all_reduce"(%8) <{replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>}> ({
    ^bb0(%10: tensor<f32>, %11: tensor<f32>):
      %12 = "stablehlo.add"(%10, %11) : (tensor<f32>, tensor<f32>) -> (tensor<f32>)
      "stablehlo.return"(%12) : (tensor<f32>) -> ()
    }) : (tensor<8xf32>) -> (tensor<8xf32>)
    %13 = "stablehlo.constant"() <{value = dense<2.50000000e-01> : tensor<f32>}> : () -> tensor<f32>
    %14 = "stablehlo.broadcast_in_dim"(%13) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> (tensor<8xf32>)
    %15 = "stablehlo.multiply"(%9, %14) : (tensor<8xf32>, tensor<8xf32>) -> (tensor<8xf32>)
    %16 = "stablehlo.constant"() <{value = dense<1.00000001e-01> : tensor<f32>}> : () -> tensor<f32>
    %17 = "stablehlo.broadcast_in_dim"(%16) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> (tensor<8xf32>)
    %18 = "stablehlo.multiply"(%17, %15) : (tensor<8xf32>, tensor<8xf32>) -> (tensor<8xf32>)
    %19 = "stablehlo.subtract"(%arg0, %18) : (tensor<8xf32>, tensor<8xf32>) -> (tensor<8xf32>)
    return %19 : tensor<8xf32>
  }
}
