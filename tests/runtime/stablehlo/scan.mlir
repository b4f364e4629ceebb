module @jit_running_ attributes {mhlo.num_replicas = 1 : i32, mhlo.num_partitions = 1 : i32} {
  func.func public @main(%arg0: tensor<2xf32>, %arg1: tensor<5x2xf32>) -> (tensor<2xf32>, tensor<5x2xf32>) {
    %0 = "stablehlo.constant"() <{value = dense<0> : tensor<i32>}> : () -> tensor<i32>
    %1 = "stablehlo.constant"() <{value = dense<0.00000000e+00> : tensor<5x2xf32>}> : () -> tensor<5x2xf32>
    %2, %3, %4, %5 = "stablehlo.while"(%0, %arg0, %arg1, %1) ({
    ^bb0(%6: tensor<i32>, %7: tensor<2xf32>, %8: tensor<5x2xf32>, %9: tensor<5x2xf32>):
      %10 = "stablehlo.constant"() <{value = dense<5> : tensor<i32>}> : () -> tensor<i32>
      %11 = "stablehlo.compare"(%6, %10) <{compare_type = #stablehlo<comparison_type SIGNED>, comparison_direction = #stablehlo<comparison_direction LT>}> : (tensor<i32>, tensor<i32>) -> (tensor<i1>)
      "stablehlo.return"(%11) : (tensor<i1>) -> ()
    }, {
    ^bb0(%12: tensor<i32>, %13: tensor<2xf32>, %14: tensor<5x2xf32>, %15: tensor<5x2xf32>):
      %16 = "stablehlo.constant"() <{value = dense<0> : tensor<i32>}> : () -> tensor<i32>
      %17 = "stablehlo.dynamic_slice"(%14, %12, %16) <{slice_sizes = array<i64: 1, 2>}> : (tensor<5x2xf32>, tensor<i32>, tensor<i32>) -> (tensor<1x2xf32>)
      %18 = "stablehlo.reshape"(%17) : (tensor<1x2xf32>) -> (tensor<2xf32>)
      %19 = "stablehlo.add"(%13, %18) : (tensor<2xf32>, tensor<2xf32>) -> (tensor<2xf32>)
      %20 = "stablehlo.constant"() <{value = dense<1> : tensor<i32>}> : () -> tensor<i32>
      %21 = "stablehlo.add"(%12, %20) : (tensor<i32>, tensor<i32>) -> (tensor<i32>)
      %22 = "stablehlo.reshape"(%19) : (tensor<2xf32>) -> (tensor<1x2xf32>)
      %23 = "stablehlo.constant"() <{value = dense<0> : tensor<i32>}> : () -> tensor<i32>
      %24 = "stablehlo.dynamic_update_slice"(%15, %22, %12, %23) : (tensor<5x2xf32>, tensor<1x2xf32>, tensor<i32>, tensor<i32>) -> (tensor<5x2xf32>)
      "stablehlo.return"(%21, %19, %14, %24) : (tensor<i32>, tensor<2xf32>, tensor<5x2xf32>, tensor<5x2xf32>) -> ()
    }) : (tensor<i32>, tensor<2xf32>, tensor<5x2xf32>, tensor<5x2xf32>) -> (tensor<i32>, tensor<2xf32>, tensor<5x2xf32>, tensor<5x2xf32>)
    return %3, %5 : tensor<2xf32>, tensor<5x2xf32>
  }
}
