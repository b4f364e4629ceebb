module @jit_branch_ attributes {mhlo.num_replicas = 1 : i32, mhlo.num_partitions = 1 : i32} {
  func.func public @main(%arg0: tensor<3xf32>) -> (tensor<3xf32>) {
    %0 = "stablehlo.constant"() <{value = dense<0.00000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %1 = "stablehlo.reduce"(%arg0, %0) <{dimensions = array<i64: 0>}> ({
    ^bb0(%2: tensor<f32>, %3: tensor<f32>):
      %4 = "stablehlo.add"(%2, %3) : (tensor<f32>, tensor<f32>) -> (tensor<f32>)
      "stablehlo.return"(%4) : (tensor<f32>) -> ()
    }) : (tensor<3xf32>, tensor<f32>) -> (tensor<f32>)
    %5 = "stablehlo.constant"() <{value = dense<0.00000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %6 = "stablehlo.compare"(%1, %5) <{compare_type = #stablehlo<comparison_type FLOAT>, comparison_direction = #stablehlo<comparison_direction GT>}> : (tensor<f32>, tensor<f32>) -> (tensor<i1>)
    %7 = "stablehlo.while"(%arg0) ({
    ^bb0(%8: tensor<3xf32>):
      %9 = "stablehlo.constant"() <{value = dense<0.00000000e+00> : tensor<f32>}> : () -> tensor<f32>
      %10 = "stablehlo.reduce"(%8, %9) <{dimensions = array<i64: 0>}> ({
      ^bb0(%11: tensor<f32>, %12: tensor<f32>):
        %13 = "stablehlo.add"(%11, %12) : (tensor<f32>, tensor<f32>) -> (tensor<f32>)
        "stablehlo.return"(%13) : (tensor<f32>) -> ()
      }) : (tensor<3xf32>, tensor<f32>) -> (tensor<f32>)
      %14 = "stablehlo.constant"() <{value = dense<1.00000000e+02> : tensor<f32>}> : () -> tensor<f32>
      %15 = "stablehlo.compare"(%10, %14) <{compare_type = #stablehlo<comparison_type FLOAT>, comparison_direction = #stablehlo<comparison_direction LT>}> : (tensor<f32>, tensor<f32>) -> (tensor<i1>)
      "stablehlo.return"(%15) : (tensor<i1>) -> ()
    }, {
    ^bb0(%16: tensor<3xf32>):
      %17 = "stablehlo.constant"() <{value = dense<2.00000000e+00> : tensor<f32>}> : () -> tensor<f32>
      %18 = "stablehlo.broadcast_in_dim"(%17) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> (tensor<3xf32>)
      %19 = "stablehlo.multiply"(%16, %18) : (tensor<3xf32>, tensor<3xf32>) -> (tensor<3xf32>)
      "stablehlo.return"(%19) : (tensor<3xf32>) -> ()
    }) : (tensor<3xf32>) -> (tensor<3xf32>)
    %20 = "stablehlo.convert"(%6) : (tensor<i1>) -> (tensor<i32>)
    %21 = "stablehlo.constant"() <{value = dense<1> : tensor<i32>}> : () -> tensor<i32>
    %22 = "stablehlo.constant"() <{value = dense<0> : tensor<i32>}> : () -> tensor<i32>
    %23 = "stablehlo.clamp"(%22, %20, %21) : (tensor<i32>, tensor<i32>, tensor<i32>) -> (tensor<i32>)
    %24 = "stablehlo.case"(%23) ({
      %25 = "stablehlo.negate"(%7) : (tensor<3xf32>) -> (tensor<3xf32>)
      "stablehlo.return"(%25) : (tensor<3xf32>) -> ()
    }, {
      %26 = "stablehlo.constant"() <{value = dense<2.00000000e+00> : tensor<f32>}> : () -> tensor<f32>
      %27 = "stablehlo.broadcast_in_dim"(%26) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> (tensor<3xf32>)
      %28 = "stablehlo.multiply"(%7, %27) : (tensor<3xf32>, tensor<3xf32>) -> (tensor<3xf32>)
      "stablehlo.return"(%28) : (tensor<3xf32>) -> ()
    }) : (tensor<i32>) -> (tensor<3xf32>)
    return %24 : tensor<3xf32>
  }
}
