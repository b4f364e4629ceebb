/* oneDNN as an optional library: its functions by pointers, opening it at the first use, entering and leaving it. 2.x and 3.x differ in
 * how memory and primitive descriptors are made; only the files of this folder know. */
#ifndef MF_BACKEND_NATIVE_KERNELS_DNNL_DNNL_LIBRARY_H
#define MF_BACKEND_NATIVE_KERNELS_DNNL_DNNL_LIBRARY_H

#include <oneapi/dnnl/dnnl.h>
#include <stdbool.h>

#if DNNL_VERSION_MAJOR >= 3
#define SONAME "libdnnl.so.3"
typedef dnnl_memory_desc_t desc; /* an owned pointer */
typedef const_dnnl_memory_desc_t desc_ref;
#define REF(d) (d)
#define VERSION_FUNCTIONS(F)                                   \
    F(dnnl_convolution_forward_primitive_desc_create)          \
    F(dnnl_convolution_backward_data_primitive_desc_create)    \
    F(dnnl_convolution_backward_weights_primitive_desc_create) \
    F(dnnl_matmul_primitive_desc_create)                       \
    F(dnnl_memory_desc_create_with_strides)                    \
    F(dnnl_memory_desc_create_with_tag)                        \
    F(dnnl_memory_desc_clone)                                  \
    F(dnnl_memory_desc_destroy)
#else
#define SONAME "libdnnl.so.2"
typedef dnnl_memory_desc_t desc; /* a value */
typedef const dnnl_memory_desc_t *desc_ref;
#define REF(d) (&(d))
#define VERSION_FUNCTIONS(F)                               \
    F(dnnl_dilated_convolution_forward_desc_init)          \
    F(dnnl_dilated_convolution_backward_data_desc_init)    \
    F(dnnl_dilated_convolution_backward_weights_desc_init) \
    F(dnnl_matmul_desc_init)                               \
    F(dnnl_primitive_desc_create)                          \
    F(dnnl_memory_desc_init_by_strides)                    \
    F(dnnl_memory_desc_init_by_tag)
#endif

#define COMMON_FUNCTIONS(F)                    \
    F(dnnl_engine_create)                      \
    F(dnnl_stream_create)                      \
    F(dnnl_stream_destroy)                     \
    F(dnnl_primitive_attr_create)              \
    F(dnnl_primitive_attr_set_scratchpad_mode) \
    F(dnnl_primitive_create)                   \
    F(dnnl_primitive_destroy)                  \
    F(dnnl_primitive_execute)                  \
    F(dnnl_primitive_desc_destroy)             \
    F(dnnl_primitive_desc_query)               \
    F(dnnl_primitive_desc_query_md)            \
    F(dnnl_reorder_primitive_desc_create)      \
    F(dnnl_memory_create)                      \
    F(dnnl_memory_destroy)                     \
    F(dnnl_memory_set_data_handle)             \
    F(dnnl_memory_desc_equal)                  \
    F(dnnl_memory_desc_get_size)               \
    F(dnnl_set_max_cpu_isa)                    \
    F(dnnl_get_effective_cpu_isa)              \
    F(dnnl_set_primitive_cache_capacity)

#define POINTER(name) __typeof__(&name) name;
typedef struct mf_dnnl_functions {
    COMMON_FUNCTIONS(POINTER)
    VERSION_FUNCTIONS(POINTER)
    void (*omp_set_num_threads)(int);
    int (*omp_get_max_threads)(void);
    dnnl_engine_t engine;
    dnnl_primitive_attr_t attr;
} mf_dnnl_functions;
#undef POINTER
extern mf_dnnl_functions mf_dnnl; /* valid once mf_dnnl_loaded() is true */

/* Whether oneDNN is available; opens it. If there is no memory for it now, this is false, and a later call tries again. Any thread. */
bool mf_dnnl_loaded(void);
/* When the process ends, oneDNN's statics are destroyed while threads of the host program may still be running: the threads inside leave
 * first, and later ones are refused (false). */
bool mf_dnnl_enter(void);
void mf_dnnl_leave(void);
/* The team size is a setting of this thread, which may be the host program's: restore the previous value. */
int mf_dnnl_team_of_one(void);
void mf_dnnl_team_restore(int before);

#endif
