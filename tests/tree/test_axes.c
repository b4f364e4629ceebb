/* Trees of axes and their expansion over an argument tree. */
#include "tree/tree.h"
#include "check.h"

#include <manyfold.h>

static const mf_structure *structure_of(mf_value v)
{
    mf_object *self, *const *leaves;
    int count;
    return mf_tree_flatten(mf_object_of(v), &leaves, &count, &self);
}

static const char *expanded(mf_axis axes, mf_value v)
{
    mf_axis out[16];
    const mf_structure *s = structure_of(v);
    mf_text t = { 0 };
    mf_error_object *e = mf_axes_expand(axes, s, "in_axes", out);
    if (e)
        mf_text_put(&t, e->message);
    for (int i = 0; !e && i < s->leaf_count; i++) {
        mf_text_put(&t, i ? " " : "");
        mf_axis_print(&t, out[i]);
    }
    mf_error_ignore(e);
    return mf_text_to_scope(&t);
}

TEST(trees_of_axes_are_interned)
{
    CHECK(mf_axes(0, MF_NONE) == mf_axes(0, MF_NONE));
    CHECK(mf_axes(0, MF_NONE) != mf_axes(MF_NONE, 0));
    CHECK(mf_axes_dict({ "w", 0 }, { "b", MF_NONE }) == mf_axes_dict({ "b", MF_NONE }, { "w", 0 }));
    CHECK(mf_axis_is_tree(mf_axes(0)) && !mf_axis_is_tree(0) && !mf_axis_is_tree(-1) && !mf_axis_is_tree(MF_NONE) &&
          !mf_axis_is_tree(MF_ALL));
    CHECK_EQ_INT(mf_axis_count(mf_axes(2, -1, 0)), 3);
    CHECK_EQ_INT(mf_axis_at(mf_axes(2, -1, 0), 1), -1);
    CHECK_EQ_INT(mf_axis_count(5), 1);
    CHECK_EQ_INT(mf_axis_at(5, 0), 5);
}

TEST(a_prefix_expands)
{
    MF_SCOPE;
    mf_value arguments = mf_tuple(mf_dict("w", 1, "b", mf_tuple(2, 3)), 4);
    CHECK_STR(expanded(0, arguments), "0 0 0 0");
    CHECK_STR(expanded(MF_NONE, arguments), "None None None None");
    CHECK_STR(expanded(mf_axes(1, MF_NONE), arguments), "1 1 1 None");
    CHECK_STR(expanded(mf_axes(mf_axes_dict({ "w", 0 }, { "b", MF_NONE }), -1), arguments), "None None 0 -1");
    CHECK_STR(expanded(mf_axes(mf_axes_dict({ "w", 0 }, { "b", mf_axes(2, 3) }), -1), arguments), "2 3 0 -1");
    CHECK_STR(expanded(mf_axes(0), mf_list(1)), "0");
}

TEST(what_is_no_prefix_says_where)
{
    MF_SCOPE;
    mf_value arguments = mf_tuple(mf_dict("w", 1, "b", mf_tuple(2, 3)), 4);
    CHECK_STR(expanded(mf_axes(0), arguments),
              "in_axes must be a tree prefix of the corresponding value: at the top the axes are (0,), but the value is a "
              "tuple of 2; the whole: axes (0,), value ({'b': (*, *), 'w': *}, *)");
    CHECK_CONTAINS(expanded(mf_axes(0, mf_axes(0, 1)), arguments), "at [1] the axes are (0, 1), but the value is a leaf");
    CHECK_CONTAINS(expanded(mf_axes(mf_axes_dict({ "w", 0 }), 0), arguments),
                   "at [0] the axes are {'w': 0}, but the value is a dict with keys {b, w}");
    CHECK_CONTAINS(expanded(mf_axes(mf_axes_dict({ "w", 0 }, { "b", mf_axes(0) }), 0), arguments), "at [0]['b']");
}
