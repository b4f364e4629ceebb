/* Losses with invalid arguments: the error messages use the caller's terms. */
#include "check.h"

#include <manyfold.h>

static mf_value f32(mf_shape shape) { return mf_ones(shape, MF_F32); }
static mf_value labels_of(mf_shape shape) { return mf_zeros(shape, MF_I32); }

TEST(labels_of_the_wrong_shape_are_named)
{
    MF_SCOPE;
    mf_value logits = f32(MF_SHAPE(4, 10));
    const struct {
        mf_value result;
        const char *words; /* NULL: valid */
    } cases[] = {
        { mf_softmax_cross_entropy(logits, f32(MF_SHAPE(4, 10))), NULL },
        { mf_softmax_cross_entropy(logits, f32(MF_SHAPE(10))), NULL },
        { mf_softmax_cross_entropy(logits, f32(MF_SHAPE(1, 10))), NULL },
        { mf_softmax_cross_entropy(logits, f32(MF_SHAPE(4))),
          "labels of the shape (4,) do not go with logits of the shape (4, 10): one number" },
        { mf_softmax_cross_entropy(logits, f32(MF_SHAPE(3, 10))), "labels of the shape (3, 10) do not go with" },
        { mf_softmax_cross_entropy_with_integer_labels(logits, labels_of(MF_SHAPE(4))), NULL },
        { mf_softmax_cross_entropy_with_integer_labels(logits, labels_of(MF_SHAPE(5))),
          "labels of the shape (5,) do not go with logits of the shape (4, 10): one label for each row" },
        { mf_softmax_cross_entropy_with_integer_labels(logits, labels_of(MF_SHAPE(4, 10))), "labels of the shape (4, 10) do not go with" },
        { mf_softmax_cross_entropy_with_integer_labels(mf_make_error(MF_ERROR_IO, "no logits"), labels_of(MF_SHAPE(4))), "no logits" },
    };
    for (int i = 0; i < (int)(sizeof cases / sizeof *cases); i++) {
        const char *message = mf_error(cases[i].result);
        if (!CHECK(cases[i].words ? message && strstr(message, cases[i].words) : !message))
            CHECK_NOTE("case %d: %s", i, message ? message : "no error");
    }
}
