module @pmap_outer_ attributes {mhlo.num_replicas = 6 : i32, mhlo.num_partitions = 1 : i32} {
  func.func public @main(%arg0: tensor<3x2xf32>) -> (tensor<3x2xf32>) {
    %0 = "stablehlo.replica_id"() : () -> (tensor<ui32>)
    %1 = "stablehlo.constant"() <{value = dense<3> : tensor<ui32>}> : () -> tensor<ui32>
    %2 = "stablehlo.remainder"(%0, %1) : (tensor<ui32>, tensor<ui32>) -> (tensor<ui32>)
    %3 = "stablehlo.convert"(%2) : (tensor<ui32>) -> (tensor<i32>)
    %4 = "stablehlo.constant"() <{value = dense<0> : tensor<i32>}> : () -> tensor<i32>
    %5 = "stablehlo.dynamic_slice"(%arg0, %3, %4) <{slice_sizes = array<i64: 1, 2>}> : (tensor<3x2xf32>, tensor<i32>, tensor<i32>) -> (tensor<1x2xf32>)
    %6 = "stablehlo.reshape"(%5) : (tensor<1x2xf32>) -> (tensor<2xf32>)
    %7 = "stablehlo.all_reduce"(%6) <{replica_groups = dense<[[0, 1, 2], [3, 4, 5]]> : tensor<2x3xi64>}> ({
    ^bb0(%8: tensor<f32>, %9: tensor<f32>):
      %10 = "stablehlo.add"(%8, %9) : (tensor<f32>, tensor<f32>) -> (tensor<f32>)
      "stablehlo.return"(%10) : (tensor<f32>) -> ()
    }) : (tensor<2xf32>) -> (tensor<2xf32>)
    %11 = "stablehlo.all_reduce"(%6) <{replica_groups = dense<[[0, 1, 2, 3, 4, 5]]> : tensor<1x6xi64>}> ({
    ^bb0(%12: tensor<f32>, %13: tensor<f32>):
      %14 = "stablehlo.add"(%12, %13) : (tensor<f32>, tensor<f32>) -> (tensor<f32>)
      "stablehlo.return"(%14) : (tensor<f32>) -> ()
    }) : (tensor<2xf32>) -> (tensor<2xf32>)
    %15 = "stablehlo.add"(%7, %11) : (tensor<2xf32>, tensor<2xf32>) -> (tensor<2xf32>)
    %16 = "stablehlo.reshape"(%15) : (tensor<2xf32>) -> (tensor<1x2xf32>)
    %17 = "stablehlo.all_gather"(%16) <{all_gather_dim = 0 : i64, replica_groups = dense<[[0, 1, 2], [3, 4, 5]]> : tensor<2x3xi64>}> : (tensor<1x2xf32>) -> (tensor<3x2xf32>)
    return %17 : tensor<3x2xf32>
  }
}
