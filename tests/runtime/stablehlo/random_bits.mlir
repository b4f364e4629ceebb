module @jit_draw_ attributes {mhlo.num_replicas = 1 : i32, mhlo.num_partitions = 1 : i32} {
  func.func public @main(%arg0: tensor<2xui32>) -> (tensor<3xui32>) {
    %0 = "stablehlo.iota"() <{iota_dimension = 0 : i64}> : () -> (tensor<3xui32>)
    %1 = "stablehlo.slice"(%arg0) <{start_indices = array<i64: 0>, limit_indices = array<i64: 1>, strides = array<i64: 1>}> : (tensor<2xui32>) -> (tensor<1xui32>)
    %2 = "stablehlo.reshape"(%1) : (tensor<1xui32>) -> (tensor<ui32>)
    %3 = "stablehlo.broadcast_in_dim"(%2) <{broadcast_dimensions = array<i64>}> : (tensor<ui32>) -> (tensor<3xui32>)
    %4 = "stablehlo.slice"(%arg0) <{start_indices = array<i64: 1>, limit_indices = array<i64: 2>, strides = array<i64: 1>}> : (tensor<2xui32>) -> (tensor<1xui32>)
    %5 = "stablehlo.reshape"(%4) : (tensor<1xui32>) -> (tensor<ui32>)
    %6 = "stablehlo.broadcast_in_dim"(%5) <{broadcast_dimensions = array<i64>}> : (tensor<ui32>) -> (tensor<3xui32>)
    %7 = "stablehlo.constant"() <{value = dense<0> : tensor<3xui32>}> : () -> tensor<3xui32>
    %8 = "stablehlo.constant"() <{value = dense<466688986> : tensor<3xui32>}> : () -> tensor<3xui32>
    %9 = "stablehlo.xor"(%3, %6) : (tensor<3xui32>, tensor<3xui32>) -> (tensor<3xui32>)
    %10 = "stablehlo.xor"(%9, %8) : (tensor<3xui32>, tensor<3xui32>) -> (tensor<3xui32>)
    %11 = "stablehlo.add"(%7, %3) : (tensor<3xui32>, tensor<3xui32>) -> (tensor<3xui32>)
    %12 = "stablehlo.add"(%0, %6) : (tensor<3xui32>, tensor<3xui32>) -> (tensor<3xui32>)
    %13 = "stablehlo.add"(%11, %12) : (tensor<3xui32>, tensor<3xui32>) -> (tensor<3xui32>)
    %14 = "stablehlo.constant"() <{value = dense<13> : tensor<3xui32>}> : () -> tensor<3xui32>
    %15 = "stablehlo.shift_left"(%12, %14) : (tensor<3xui32>, tensor<3xui32>) -> (tensor<3xui32>)
    %16 = "stablehlo.constant"() <{value = dense<19> : tensor<3xui32>}> : () -> tensor<3xui32>
    %17 = "stablehlo.shift_right_logical"(%12, %16) : (tensor<3xui32>, tensor<3xui32>) -> (tensor<3xui32>)
    %18 = "stablehlo.or"(%15, %17) : (tensor<3xui32>, tensor<3xui32>) -> (tensor<3xui32>)
    %19 = "stablehlo.xor"(%18, %13) : (tensor<3xui32>, tensor<3xui32>) -> (tensor<3xui32>)
    %20 = "stablehlo.add"(%13, %19) : (tensor<3xui32>, tensor<3xui32>) -> (tensor<3xui32>)
    %21 = "stablehlo.constant"() <{value = dense<15> : tensor<3xui32>}> : () -> tensor<3xui32>
    %22 = "stablehlo.shift_left"(%19, %21) : (tensor<3xui32>, tensor<3xui32>) -> (tensor<3xui32>)
    %23 = "stablehlo.constant"() <{value = dense<17> : tensor<3xui32>}> : () -> tensor<3xui32>
    %24 = "stablehlo.shift_right_logical"(%19, %23) : (tensor<3xui32>, tensor<3xui32>) -> (tensor<3xui32>)
    %25 = "stablehlo.or"(%22, %24) : (tensor<3xui32>, tensor<3xui32>) -> (tensor<3xui32>)
    %26 = "stablehlo.xor"(%25, %20) : (tensor<3xui32>, tensor<3xui32>) -> (tensor<3xui32>)
    %27 = "stablehlo.add"(%20, %26) : (tensor<3xui32>, tensor<3xui32>) -> (tensor<3xui32>)
    %28 = "stablehlo.constant"() <{value = dense<26> : tensor<3xui32>}> : () -> tensor<3xui32>
    %29 = "stablehlo.shift_left"(%26, %28) : (tensor<3xui32>, tensor<3xui32>) -> (tensor<3xui32>)
    %30 = "stablehlo.constant"() <{value = dense<6> : tensor<3xui32>}> : () -> tensor<3xui32>
    %31 = "stablehlo.shift_right_logical"(%26, %30) : (tensor<3xui32>, tensor<3xui32>) -> (tensor<3xui32>)
    %32 = "stablehlo.or"(%29, %31) : (tensor<3xui32>, tensor<3xui32>) -> (tensor<3xui32>)
    %33 = "stablehlo.xor"(%32, %27) : (tensor<3xui32>, tensor<3xui32>) -> (tensor<3xui32>)
    %34 = "stablehlo.add"(%27, %33) : (tensor<3xui32>, tensor<3xui32>) -> (tensor<3xui32>)
    %35 = "stablehlo.constant"() <{value = dense<6> : tensor<3xui32>}> : () -> tensor<3xui32>
    %36 = "stablehlo.shift_left"(%33, %35) : (tensor<3xui32>, tensor<3xui32>) -> (tensor<3xui32>)
    %37 = "stablehlo.constant"() <{value = dense<26> : tensor<3xui32>}> : () -> tensor<3xui32>
    %38 = "stablehlo.shift_right_logical"(%33, %37) : (tensor<3xui32>, tensor<3xui32>) -> (tensor<3xui32>)
    %39 = "stablehlo.or"(%36, %38) : (tensor<3xui32>, tensor<3xui32>) -> (tensor<3xui32>)
    %40 = "stablehlo.xor"(%39, %34) : (tensor<3xui32>, tensor<3xui32>) -> (tensor<3xui32>)
    %41 = "stablehlo.add"(%34, %6) : (tensor<3xui32>, tensor<3xui32>) -> (tensor<3xui32>)
    %42 = "stablehlo.constant"() <{value = dense<1> : tensor<3xui32>}> : () -> tensor<3xui32>
    %43 = "stablehlo.add"(%40, %10) : (tensor<3xui32>, tensor<3xui32>) -> (tensor<3xui32>)
    %44 = "stablehlo.add"(%43, %42) : (tensor<3xui32>, tensor<3xui32>) -> (tensor<3xui32>)
    %45 = "stablehlo.add"(%41, %44) : (tensor<3xui32>, tensor<3xui32>) -> (tensor<3xui32>)
    %46 = "stablehlo.constant"() <{value = dense<17> : tensor<3xui32>}> : () -> tensor<3xui32>
    %47 = "stablehlo.shift_left"(%44, %46) : (tensor<3xui32>, tensor<3xui32>) -> (tensor<3xui32>)
    %48 = "stablehlo.constant"() <{value = dense<15> : tensor<3xui32>}> : () -> tensor<3xui32>
    %49 = "stablehlo.shift_right_logical"(%44, %48) : (tensor<3xui32>, tensor<3xui32>) -> (tensor<3xui32>)
    %50 = "stablehlo.or"(%47, %49) : (tensor<3xui32>, tensor<3xui32>) -> (tensor<3xui32>)
    %51 = "stablehlo.xor"(%50, %45) : (tensor<3xui32>, tensor<3xui32>) -> (tensor<3xui32>)
    %52 = "stablehlo.add"(%45, %51) : (tensor<3xui32>, tensor<3xui32>) -> (tensor<3xui32>)
    %53 = "stablehlo.constant"() <{value = dense<29> : tensor<3xui32>}> : () -> tensor<3xui32>
    %54 = "stablehlo.shift_left"(%51, %53) : (tensor<3xui32>, tensor<3xui32>) -> (tensor<3xui32>)
    %55 = "stablehlo.constant"() <{value = dense<3> : tensor<3xui32>}> : () -> tensor<3xui32>
    %56 = "stablehlo.shift_right_logical"(%51, %55) : (tensor<3xui32>, tensor<3xui32>) -> (tensor<3xui32>)
    %57 = "stablehlo.or"(%54, %56) : (tensor<3xui32>, tensor<3xui32>) -> (tensor<3xui32>)
    %58 = "stablehlo.xor"(%57, %52) : (tensor<3xui32>, tensor<3xui32>) -> (tensor<3xui32>)
    %59 = "stablehlo.add"(%52, %58) : (tensor<3xui32>, tensor<3xui32>) -> (tensor<3xui32>)
    %60 = "stablehlo.constant"() <{value = dense<16> : tensor<3xui32>}> : () -> tensor<3xui32>
    %61 = "stablehlo.shift_left"(%58, %60) : (tensor<3xui32>, tensor<3xui32>) -> (tensor<3xui32>)
    %62 = "stablehlo.constant"() <{value = dense<16> : tensor<3xui32>}> : () -> tensor<3xui32>
    %63 = "stablehlo.shift_right_logical"(%58, %62) : (tensor<3xui32>, tensor<3xui32>) -> (tensor<3xui32>)
    %64 = "stablehlo.or"(%61, %63) : (tensor<3xui32>, tensor<3xui32>) -> (tensor<3xui32>)
    %65 = "stablehlo.xor"(%64, %59) : (tensor<3xui32>, tensor<3xui32>) -> (tensor<3xui32>)
    %66 = "stablehlo.add"(%59, %65) : (tensor<3xui32>, tensor<3xui32>) -> (tensor<3xui32>)
    %67 = "stablehlo.constant"() <{value = dense<24> : tensor<3xui32>}> : () -> tensor<3xui32>
    %68 = "stablehlo.shift_left"(%65, %67) : (tensor<3xui32>, tensor<3xui32>) -> (tensor<3xui32>)
    %69 = "stablehlo.constant"() <{value = dense<8> : tensor<3xui32>}> : () -> tensor<3xui32>
    %70 = "stablehlo.shift_right_logical"(%65, %69) : (tensor<3xui32>, tensor<3xui32>) -> (tensor<3xui32>)
    %71 = "stablehlo.or"(%68, %70) : (tensor<3xui32>, tensor<3xui32>) -> (tensor<3xui32>)
    %72 = "stablehlo.xor"(%71, %66) : (tensor<3xui32>, tensor<3xui32>) -> (tensor<3xui32>)
    %73 = "stablehlo.add"(%66, %10) : (tensor<3xui32>, tensor<3xui32>) -> (tensor<3xui32>)
    %74 = "stablehlo.constant"() <{value = dense<2> : tensor<3xui32>}> : () -> tensor<3xui32>
    %75 = "stablehlo.add"(%72, %3) : (tensor<3xui32>, tensor<3xui32>) -> (tensor<3xui32>)
    %76 = "stablehlo.add"(%75, %74) : (tensor<3xui32>, tensor<3xui32>) -> (tensor<3xui32>)
    %77 = "stablehlo.add"(%73, %76) : (tensor<3xui32>, tensor<3xui32>) -> (tensor<3xui32>)
    %78 = "stablehlo.constant"() <{value = dense<13> : tensor<3xui32>}> : () -> tensor<3xui32>
    %79 = "stablehlo.shift_left"(%76, %78) : (tensor<3xui32>, tensor<3xui32>) -> (tensor<3xui32>)
    %80 = "stablehlo.constant"() <{value = dense<19> : tensor<3xui32>}> : () -> tensor<3xui32>
    %81 = "stablehlo.shift_right_logical"(%76, %80) : (tensor<3xui32>, tensor<3xui32>) -> (tensor<3xui32>)
    %82 = "stablehlo.or"(%79, %81) : (tensor<3xui32>, tensor<3xui32>) -> (tensor<3xui32>)
    %83 = "stablehlo.xor"(%82, %77) : (tensor<3xui32>, tensor<3xui32>) -> (tensor<3xui32>)
    %84 = "stablehlo.add"(%77, %83) : (tensor<3xui32>, tensor<3xui32>) -> (tensor<3xui32>)
    %85 = "stablehlo.constant"() <{value = dense<15> : tensor<3xui32>}> : () -> tensor<3xui32>
    %86 = "stablehlo.shift_left"(%83, %85) : (tensor<3xui32>, tensor<3xui32>) -> (tensor<3xui32>)
    %87 = "stablehlo.constant"() <{value = dense<17> : tensor<3xui32>}> : () -> tensor<3xui32>
    %88 = "stablehlo.shift_right_logical"(%83, %87) : (tensor<3xui32>, tensor<3xui32>) -> (tensor<3xui32>)
    %89 = "stablehlo.or"(%86, %88) : (tensor<3xui32>, tensor<3xui32>) -> (tensor<3xui32>)
    %90 = "stablehlo.xor"(%89, %84) : (tensor<3xui32>, tensor<3xui32>) -> (tensor<3xui32>)
    %91 = "stablehlo.add"(%84, %90) : (tensor<3xui32>, tensor<3xui32>) -> (tensor<3xui32>)
    %92 = "stablehlo.constant"() <{value = dense<26> : tensor<3xui32>}> : () -> tensor<3xui32>
    %93 = "stablehlo.shift_left"(%90, %92) : (tensor<3xui32>, tensor<3xui32>) -> (tensor<3xui32>)
    %94 = "stablehlo.constant"() <{value = dense<6> : tensor<3xui32>}> : () -> tensor<3xui32>
    %95 = "stablehlo.shift_right_logical"(%90, %94) : (tensor<3xui32>, tensor<3xui32>) -> (tensor<3xui32>)
    %96 = "stablehlo.or"(%93, %95) : (tensor<3xui32>, tensor<3xui32>) -> (tensor<3xui32>)
    %97 = "stablehlo.xor"(%96, %91) : (tensor<3xui32>, tensor<3xui32>) -> (tensor<3xui32>)
    %98 = "stablehlo.add"(%91, %97) : (tensor<3xui32>, tensor<3xui32>) -> (tensor<3xui32>)
    %99 = "stablehlo.constant"() <{value = dense<6> : tensor<3xui32>}> : () -> tensor<3xui32>
    %100 = "stablehlo.shift_left"(%97, %99) : (tensor<3xui32>, tensor<3xui32>) -> (tensor<3xui32>)
    %101 = "stablehlo.constant"() <{value = dense<26> : tensor<3xui32>}> : () -> tensor<3xui32>
    %102 = "stablehlo.shift_right_logical"(%97, %101) : (tensor<3xui32>, tensor<3xui32>) -> (tensor<3xui32>)
    %103 = "stablehlo.or"(%100, %102) : (tensor<3xui32>, tensor<3xui32>) -> (tensor<3xui32>)
    %104 = "stablehlo.xor"(%103, %98) : (tensor<3xui32>, tensor<3xui32>) -> (tensor<3xui32>)
    %105 = "stablehlo.add"(%98, %3) : (tensor<3xui32>, tensor<3xui32>) -> (tensor<3xui32>)
    %106 = "stablehlo.constant"() <{value = dense<3> : tensor<3xui32>}> : () -> tensor<3xui32>
    %107 = "stablehlo.add"(%104, %6) : (tensor<3xui32>, tensor<3xui32>) -> (tensor<3xui32>)
    %108 = "stablehlo.add"(%107, %106) : (tensor<3xui32>, tensor<3xui32>) -> (tensor<3xui32>)
    %109 = "stablehlo.add"(%105, %108) : (tensor<3xui32>, tensor<3xui32>) -> (tensor<3xui32>)
    %110 = "stablehlo.constant"() <{value = dense<17> : tensor<3xui32>}> : () -> tensor<3xui32>
    %111 = "stablehlo.shift_left"(%108, %110) : (tensor<3xui32>, tensor<3xui32>) -> (tensor<3xui32>)
    %112 = "stablehlo.constant"() <{value = dense<15> : tensor<3xui32>}> : () -> tensor<3xui32>
    %113 = "stablehlo.shift_right_logical"(%108, %112) : (tensor<3xui32>, tensor<3xui32>) -> (tensor<3xui32>)
    %114 = "stablehlo.or"(%111, %113) : (tensor<3xui32>, tensor<3xui32>) -> (tensor<3xui32>)
    %115 = "stablehlo.xor"(%114, %109) : (tensor<3xui32>, tensor<3xui32>) -> (tensor<3xui32>)
    %116 = "stablehlo.add"(%109, %115) : (tensor<3xui32>, tensor<3xui32>) -> (tensor<3xui32>)
    %117 = "stablehlo.constant"() <{value = dense<29> : tensor<3xui32>}> : () -> tensor<3xui32>
    %118 = "stablehlo.shift_left"(%115, %117) : (tensor<3xui32>, tensor<3xui32>) -> (tensor<3xui32>)
    %119 = "stablehlo.constant"() <{value = dense<3> : tensor<3xui32>}> : () -> tensor<3xui32>
    %120 = "stablehlo.shift_right_logical"(%115, %119) : (tensor<3xui32>, tensor<3xui32>) -> (tensor<3xui32>)
    %121 = "stablehlo.or"(%118, %120) : (tensor<3xui32>, tensor<3xui32>) -> (tensor<3xui32>)
    %122 = "stablehlo.xor"(%121, %116) : (tensor<3xui32>, tensor<3xui32>) -> (tensor<3xui32>)
    %123 = "stablehlo.add"(%116, %122) : (tensor<3xui32>, tensor<3xui32>) -> (tensor<3xui32>)
    %124 = "stablehlo.constant"() <{value = dense<16> : tensor<3xui32>}> : () -> tensor<3xui32>
    %125 = "stablehlo.shift_left"(%122, %124) : (tensor<3xui32>, tensor<3xui32>) -> (tensor<3xui32>)
    %126 = "stablehlo.constant"() <{value = dense<16> : tensor<3xui32>}> : () -> tensor<3xui32>
    %127 = "stablehlo.shift_right_logical"(%122, %126) : (tensor<3xui32>, tensor<3xui32>) -> (tensor<3xui32>)
    %128 = "stablehlo.or"(%125, %127) : (tensor<3xui32>, tensor<3xui32>) -> (tensor<3xui32>)
    %129 = "stablehlo.xor"(%128, %123) : (tensor<3xui32>, tensor<3xui32>) -> (tensor<3xui32>)
    %130 = "stablehlo.add"(%123, %129) : (tensor<3xui32>, tensor<3xui32>) -> (tensor<3xui32>)
    %131 = "stablehlo.constant"() <{value = dense<24> : tensor<3xui32>}> : () -> tensor<3xui32>
    %132 = "stablehlo.shift_left"(%129, %131) : (tensor<3xui32>, tensor<3xui32>) -> (tensor<3xui32>)
    %133 = "stablehlo.constant"() <{value = dense<8> : tensor<3xui32>}> : () -> tensor<3xui32>
    %134 = "stablehlo.shift_right_logical"(%129, %133) : (tensor<3xui32>, tensor<3xui32>) -> (tensor<3xui32>)
    %135 = "stablehlo.or"(%132, %134) : (tensor<3xui32>, tensor<3xui32>) -> (tensor<3xui32>)
    %136 = "stablehlo.xor"(%135, %130) : (tensor<3xui32>, tensor<3xui32>) -> (tensor<3xui32>)
    %137 = "stablehlo.add"(%130, %6) : (tensor<3xui32>, tensor<3xui32>) -> (tensor<3xui32>)
    %138 = "stablehlo.constant"() <{value = dense<4> : tensor<3xui32>}> : () -> tensor<3xui32>
    %139 = "stablehlo.add"(%136, %10) : (tensor<3xui32>, tensor<3xui32>) -> (tensor<3xui32>)
    %140 = "stablehlo.add"(%139, %138) : (tensor<3xui32>, tensor<3xui32>) -> (tensor<3xui32>)
    %141 = "stablehlo.add"(%137, %140) : (tensor<3xui32>, tensor<3xui32>) -> (tensor<3xui32>)
    %142 = "stablehlo.constant"() <{value = dense<13> : tensor<3xui32>}> : () -> tensor<3xui32>
    %143 = "stablehlo.shift_left"(%140, %142) : (tensor<3xui32>, tensor<3xui32>) -> (tensor<3xui32>)
    %144 = "stablehlo.constant"() <{value = dense<19> : tensor<3xui32>}> : () -> tensor<3xui32>
    %145 = "stablehlo.shift_right_logical"(%140, %144) : (tensor<3xui32>, tensor<3xui32>) -> (tensor<3xui32>)
    %146 = "stablehlo.or"(%143, %145) : (tensor<3xui32>, tensor<3xui32>) -> (tensor<3xui32>)
    %147 = "stablehlo.xor"(%146, %141) : (tensor<3xui32>, tensor<3xui32>) -> (tensor<3xui32>)
    %148 = "stablehlo.add"(%141, %147) : (tensor<3xui32>, tensor<3xui32>) -> (tensor<3xui32>)
    %149 = "stablehlo.constant"() <{value = dense<15> : tensor<3xui32>}> : () -> tensor<3xui32>
    %150 = "stablehlo.shift_left"(%147, %149) : (tensor<3xui32>, tensor<3xui32>) -> (tensor<3xui32>)
    %151 = "stablehlo.constant"() <{value = dense<17> : tensor<3xui32>}> : () -> tensor<3xui32>
    %152 = "stablehlo.shift_right_logical"(%147, %151) : (tensor<3xui32>, tensor<3xui32>) -> (tensor<3xui32>)
    %153 = "stablehlo.or"(%150, %152) : (tensor<3xui32>, tensor<3xui32>) -> (tensor<3xui32>)
    %154 = "stablehlo.xor"(%153, %148) : (tensor<3xui32>, tensor<3xui32>) -> (tensor<3xui32>)
    %155 = "stablehlo.add"(%148, %154) : (tensor<3xui32>, tensor<3xui32>) -> (tensor<3xui32>)
    %156 = "stablehlo.constant"() <{value = dense<26> : tensor<3xui32>}> : () -> tensor<3xui32>
    %157 = "stablehlo.shift_left"(%154, %156) : (tensor<3xui32>, tensor<3xui32>) -> (tensor<3xui32>)
    %158 = "stablehlo.constant"() <{value = dense<6> : tensor<3xui32>}> : () -> tensor<3xui32>
    %159 = "stablehlo.shift_right_logical"(%154, %158) : (tensor<3xui32>, tensor<3xui32>) -> (tensor<3xui32>)
    %160 = "stablehlo.or"(%157, %159) : (tensor<3xui32>, tensor<3xui32>) -> (tensor<3xui32>)
    %161 = "stablehlo.xor"(%160, %155) : (tensor<3xui32>, tensor<3xui32>) -> (tensor<3xui32>)
    %162 = "stablehlo.add"(%155, %161) : (tensor<3xui32>, tensor<3xui32>) -> (tensor<3xui32>)
    %163 = "stablehlo.constant"() <{value = dense<6> : tensor<3xui32>}> : () -> tensor<3xui32>
    %164 = "stablehlo.shift_left"(%161, %163) : (tensor<3xui32>, tensor<3xui32>) -> (tensor<3xui32>)
    %165 = "stablehlo.constant"() <{value = dense<26> : tensor<3xui32>}> : () -> tensor<3xui32>
    %166 = "stablehlo.shift_right_logical"(%161, %165) : (tensor<3xui32>, tensor<3xui32>) -> (tensor<3xui32>)
    %167 = "stablehlo.or"(%164, %166) : (tensor<3xui32>, tensor<3xui32>) -> (tensor<3xui32>)
    %168 = "stablehlo.xor"(%167, %162) : (tensor<3xui32>, tensor<3xui32>) -> (tensor<3xui32>)
    %169 = "stablehlo.add"(%162, %10) : (tensor<3xui32>, tensor<3xui32>) -> (tensor<3xui32>)
    %170 = "stablehlo.constant"() <{value = dense<5> : tensor<3xui32>}> : () -> tensor<3xui32>
    %171 = "stablehlo.add"(%168, %3) : (tensor<3xui32>, tensor<3xui32>) -> (tensor<3xui32>)
    %172 = "stablehlo.add"(%171, %170) : (tensor<3xui32>, tensor<3xui32>) -> (tensor<3xui32>)
    %173 = "stablehlo.xor"(%169, %172) : (tensor<3xui32>, tensor<3xui32>) -> (tensor<3xui32>)
    return %173 : tensor<3xui32>
  }
}
