module @pmap_outer_ attributes {mhlo.num_replicas = 6 : i32, mhlo.num_partitions = 1 : i32} {
  func.func public @main(%arg0: tensor<2xf32>) -> (tensor<2xf32>) {
    %0 = "stablehlo.all_reduce"(%arg0) <{replica_groups = dense<[[0, 1, 2], [3, 4, 5]]> : tensor<2x3xi64>}> ({
    ^bb0(%1: tensor<f32>, %2: tensor<f32>):
      %3 = "stablehlo.add"(%1, %2) : (tensor<f32>, tensor<f32>) -> (tensor<f32>)
      "stablehlo.return"(%3) : (tensor<f32>) -> ()
    }) : (tensor<2xf32>) -> (tensor<2xf32>)
    %4 = "stablehlo.all_reduce"(%arg0) <{replica_groups = dense<[[0, 1, 2, 3, 4, 5]]> : tensor<1x6xi64>}> ({
    ^bb0(%5: tensor<f32>, %6: tensor<f32>):
      %7 = "stablehlo.add"(%5, %6) : (tensor<f32>, tensor<f32>) -> (tensor<f32>)
      "stablehlo.return"(%7) : (tensor<f32>) -> ()
    }) : (tensor<2xf32>) -> (tensor<2xf32>)
    %8 = "stablehlo.add"(%0, %4) : (tensor<2xf32>, tensor<2xf32>) -> (tensor<2xf32>)
    return %8 : tensor<2xf32>
  }
}
