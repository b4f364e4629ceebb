module @pmap_in_groups_ attributes {mhlo.num_replicas = 4 : i32, mhlo.num_partitions = 1 : i32} {
  func.func public @main(%arg0: tensor<2xf32>) -> (tensor<2xf32>) {
    %0 = "stablehlo.all_reduce"(%arg0) <{replica_groups = dense<[[0, 2], [1, 3]]> : tensor<2x2xi64>}> ({
    ^bb0(%1: tensor<f32>, %2: tensor<f32>):
      %3 = "stablehlo.add"(%1, %2) : (tensor<f32>, tensor<f32>) -> (tensor<f32>)
      "stablehlo.return"(%3) : (tensor<f32>) -> ()
    }) : (tensor<2xf32>) -> (tensor<2xf32>)
    return %0 : tensor<2xf32>
  }
}
