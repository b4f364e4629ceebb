module @jit_twice_mapped_ attributes {mhlo.num_replicas = 4 : i32, mhlo.num_partitions = 1 : i32} {
  func.func public @main(%arg0: tensor<4x8xf32>) -> (tensor<4x8xf32>) {
    %0 = "stablehlo.replica_id"() : () -> (tensor<ui32>)
    %1 = "stablehlo.convert"(%0) : (tensor<ui32>) -> (tensor<i32>)
    %2 = "stablehlo.constant"() <{value = dense<0> : tensor<i32>}> : () -> tensor<i32>
    %3 = "stablehlo.dynamic_slice"(%arg0, %1, %2) <{slice_sizes = array<i64: 1, 8>}> : (tensor<4x8xf32>, tensor<i32>, tensor<i32>) -> (tensor<1x8xf32>)
    %4 = "stablehlo.reshape"(%3) : (tensor<1x8xf32>) -> (tensor<8xf32>)
    %5 = "stablehlo.all_reduce"(%4) <{replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>}> ({
    ^bb0(%6: tensor<f32>, %7: tensor<f32>):
      %8 = "stablehlo.add"(%6, %7) : (tensor<f32>, tensor<f32>) -> (tensor<f32>)
      "stablehlo.return"(%8) : (tensor<f32>) -> ()
    }) : (tensor<8xf32>) -> (tensor<8xf32>)
    %9 = "stablehlo.divide"(%4, %5) : (tensor<8xf32>, tensor<8xf32>) -> (tensor<8xf32>)
    %10 = "stablehlo.reshape"(%9) : (tensor<8xf32>) -> (tensor<1x8xf32>)
    %11 = "stablehlo.all_gather"(%10) <{all_gather_dim = 0 : i64, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>}> : (tensor<1x8xf32>) -> (tensor<4x8xf32>)
    %12 = "stablehlo.replica_id"() : () -> (tensor<ui32>)
    %13 = "stablehlo.convert"(%12) : (tensor<ui32>) -> (tensor<i32>)
    %14 = "stablehlo.constant"() <{value = dense<0> : tensor<i32>}> : () -> tensor<i32>
    %15 = "stablehlo.dynamic_slice"(%11, %13, %14) <{slice_sizes = array<i64: 1, 8>}> : (tensor<4x8xf32>, tensor<i32>, tensor<i32>) -> (tensor<1x8xf32>)
    %16 = "stablehlo.reshape"(%15) : (tensor<1x8xf32>) -> (tensor<8xf32>)
    %17 = "stablehlo.all_reduce"(%16) <{replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>}> ({
    ^bb0(%18: tensor<f32>, %19: tensor<f32>):
      %20 = "stablehlo.add"(%18, %19) : (tensor<f32>, tensor<f32>) -> (tensor<f32>)
      "stablehlo.return"(%20) : (tensor<f32>) -> ()
    }) : (tensor<8xf32>) -> (tensor<8xf32>)
    %21 = "stablehlo.divide"(%16, %17) : (tensor<8xf32>, tensor<8xf32>) -> (tensor<8xf32>)
    %22 = "stablehlo.reshape"(%21) : (tensor<8xf32>) -> (tensor<1x8xf32>)
    %23 = "stablehlo.all_gather"(%22) <{all_gather_dim = 0 : i64, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>}> : (tensor<1x8xf32>) -> (tensor<4x8xf32>)
    return %23 : tensor<4x8xf32>
  }
}
