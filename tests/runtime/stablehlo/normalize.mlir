module @pmap_normalize_ attributes {mhlo.num_replicas = 4 : i32, mhlo.num_partitions = 1 : i32} {
  func.func public @main(%arg0: tensor<8xf32>) -> (tensor<8xf32>) {
    %0 = "stablehlo.all_reduce"(%arg0) <{replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>}> ({
    ^bb0(%1: tensor<f32>, %2: tensor<f32>):
      %3 = "stablehlo.add"(%1, %2) : (tensor<f32>, tensor<f32>) -> (tensor<f32>)
      "stablehlo.return"(%3) : (tensor<f32>) -> ()
    }) : (tensor<8xf32>) -> (tensor<8xf32>)
    %4 = "stablehlo.divide"(%arg0, %0) : (tensor<8xf32>, tensor<8xf32>) -> (tensor<8xf32>)
    return %4 : tensor<8xf32>
  }
}
