/* Tree structures. Invariant: equal structures have one address; leaf_count is the sum over the children; dict keys are sorted. */
#include "tree/tree.h"

#include "base/memory/vector.h"

#include <string.h>

static _Atomic(mf_interner *) structures;
static const mf_structure leaf = { .kind = MF_NODE_LEAF, .leaf_count = 1 }, none = { .kind = MF_NODE_NONE }; /* never fail */

const mf_structure *mf_structure_node(mf_node_kind kind, const mf_namelist *keys, const mf_structure *const *children, int count)
{
    if (kind == MF_NODE_LEAF || kind == MF_NODE_NONE)
        return kind == MF_NODE_LEAF ? &leaf : &none;
    size_t size = sizeof(mf_structure) + (size_t)count * sizeof(void *);
    MF_SMALL_ARRAY(void *, blob, 40, size / sizeof(void *));
    if (!blob)
        return NULL;
    memset(blob, 0, size); /* the bytes are the key */
    mf_structure *s = (mf_structure *)(void *)blob;
    s->kind = kind;
    s->child_count = count;
    s->depth = 1;
    s->keys = keys;
    bool whole = kind != MF_NODE_DICT || keys || count == 0;
    for (int i = 0; i < count && whole; i++) {
        s->children[i] = children[i];
        whole = children[i] != NULL;
        s->leaf_count += whole ? children[i]->leaf_count : 0;
        s->depth = whole && children[i]->depth >= s->depth ? children[i]->depth + 1 : s->depth;
    }
    return whole ? mf_interner_get(mf_interner_static(&structures), blob, size) : NULL;
}

const mf_structure *mf_structure_leaf(void) { return &leaf; }
const mf_structure *mf_structure_none(void) { return &none; }

/* ---- text */

void mf_structure_print_leaves(mf_text *t, const mf_structure *s, mf_object *const *leaves, mf_leaf_printer print_leaf)
{
    static const char *const brackets[] = { [MF_NODE_TUPLE] = "()", [MF_NODE_LIST] = "[]", [MF_NODE_DICT] = "{}" };
    if (s->kind == MF_NODE_LEAF && leaves) {
        print_leaf(t, *leaves);
        return;
    }
    if (s->kind == MF_NODE_LEAF || s->kind == MF_NODE_NONE) {
        mf_text_put(t, s->kind == MF_NODE_LEAF ? "*" : "None");
        return;
    }
    mf_text_putn(t, brackets[s->kind], 1);
    for (int i = 0; i < s->child_count; i++) {
        mf_text_put(t, i ? ", " : "");
        if (s->kind == MF_NODE_DICT)
            mf_text_add(t, "'%s': ", s->keys->at[i]);
        mf_structure_print_leaves(t, s->children[i], leaves, print_leaf);
        leaves += leaves ? s->children[i]->leaf_count : 0;
    }
    mf_text_put(t, s->kind == MF_NODE_TUPLE && s->child_count == 1 ? "," : "");
    mf_text_putn(t, brackets[s->kind] + 1, 1);
}

void mf_structure_print(mf_text *t, const mf_structure *s) { mf_structure_print_leaves(t, s, NULL, NULL); }

static void print_step(mf_text *t, const mf_structure *s, int child)
{
    if (s->kind == MF_NODE_DICT)
        mf_text_add(t, "['%s']", s->keys->at[child]);
    else
        mf_text_add(t, "[%d]", child);
}

void mf_structure_leaf_path(mf_text *t, const mf_structure *s, int leaf)
{
    while (s->kind != MF_NODE_LEAF) {
        int child = 0;
        while (child < s->child_count && leaf >= s->children[child]->leaf_count)
            leaf -= s->children[child++]->leaf_count;
        if (child == s->child_count)
            return;
        print_step(t, s, child);
        s = s->children[child];
    }
}

void mf_structure_describe(mf_text *t, const mf_structure *s)
{
    static const char *const names[] = { "a leaf", "None", "a tuple", "a list", "a dict" };
    mf_text_put(t, names[s->kind]);
    if (s->kind == MF_NODE_TUPLE || s->kind == MF_NODE_LIST)
        mf_text_add(t, " of %d", s->child_count);
    if (s->kind == MF_NODE_DICT)
        mf_text_put(t, " with keys {");
    for (int i = 0; s->kind == MF_NODE_DICT && i < s->child_count; i++)
        mf_text_add(t, "%s%s", i ? ", " : "", s->keys->at[i]);
    mf_text_put(t, s->kind == MF_NODE_DICT ? "}" : "");
}

const char *mf_object_words(const mf_object *o)
{
    static const char *const statics[] = {
        [MF_STATIC_STRING] = "a string", [MF_STATIC_BYTES] = "static bytes", [MF_STATIC_MODULE] = "a module", [MF_STATIC_SLICE] = "a slice"
    };
    if (!o)
        return "an unset value";
    if (mf_object_is(o, &mf_static_class))
        return statics[((const mf_static_object *)o)->what];
    if (!mf_object_is(o, &mf_tree_class))
        return o->kind->name;
    mf_text t = { 0 };
    mf_structure_describe(&t, ((const mf_tree *)o)->structure);
    const char *words = t.at ? mf_intern(t.at) : o->kind->name;
    mf_text_free(&t);
    return words;
}

void mf_structure_difference(mf_text *t, const mf_structure *a, const mf_structure *b)
{
    mf_text path = { 0 };
    for (;;) {
        int child = 0;
        if (a == b || a->kind != b->kind || a->child_count != b->child_count || a->keys != b->keys)
            break;
        while (child < a->child_count && a->children[child] == b->children[child])
            child++;
        print_step(&path, a, child);
        a = a->children[child];
        b = b->children[child];
    }
    mf_text_add(t, "at %s: ", path.count ? path.at : "the top");
    mf_text_free(&path);
    mf_structure_describe(t, a);
    mf_text_put(t, " against ");
    mf_structure_describe(t, b);
}
