/* einsum, with NumPy's subscripts ("ij,jk->ik", "bij,bjk", "...i,i"). Operands are contracted from left to right, two at a time, by
 * dot_general. Invariant: between steps the labels of an operand's dimensions are distinct, and each is still needed, by the result or by
 * an operand further right. */
#include <manyfold.h>

#include <string.h>

enum { DOTS = 128, LABELS = DOTS + MF_MAX_RANK, OPERANDS = 16 }; /* "..." has labels from DOTS on, aligned at the end */

typedef struct term {
    mf_value x;
    int count, label[MF_MAX_RANK];
} term;

typedef struct einsum {
    const char *text;
    int count;
    term in[OPERANDS], out;
    int64_t size[LABELS]; /* by label; 0: not seen, or size 0 */
    bool empty[LABELS];   /* seen with size 0 */
    int dots;             /* the most dimensions that a "..." stands for */
    mf_value error;
} einsum;

static bool fail(einsum *e, mf_value error)
{
    e->error = error;
    return false;
}

static bool has(const term *t, int label)
{
    for (int i = 0; i < t->count; i++)
        if (t->label[i] == label)
            return true;
    return false;
}

/* ---- parsing the subscripts */
static bool put(einsum *e, term *t, int label)
{
    if (t->count == MF_MAX_RANK)
        return fail(e, mf_make_error(MF_ERROR_SHAPE, "einsum \"%s\": more than %d subscripts in one term", e->text, MF_MAX_RANK));
    t->label[t->count++] = label;
    return true;
}

/* dots: the number of dimensions that "..." stands for. */
static bool read_term(einsum *e, term *t, const char *from, const char *end, int dots)
{
    for (const char *p = from; p < end; p++) {
        if (*p == ' ')
            continue;
        if (end - p >= 3 && strncmp(p, "...", 3) == 0) {
            for (int i = MF_MAX_RANK - dots; i < MF_MAX_RANK; i++)
                if (!put(e, t, DOTS + i))
                    return false;
            p += 2;
        } else if ((*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z')) {
            if (!put(e, t, *p))
                return false;
        } else
            return fail(e, mf_make_error(MF_ERROR_ARGUMENT, "einsum \"%s\": '%c' is no subscript", e->text, *p));
    }
    return true;
}

static int letters(const char *from, const char *end)
{
    int n = 0;
    for (const char *p = from; p < end; p++)
        n += *p != ' ' && *p != '.';
    return n;
}

static bool read_operand(einsum *e, int i, const char *from, const char *end)
{
    int rank = mf_ndim(e->in[i].x), named = letters(from, end), dots = 0;
    bool open = memchr(from, '.', (size_t)(end - from)) != NULL;
    if (open && rank > named)
        dots = rank - named;
    if (!read_term(e, &e->in[i], from, end, dots))
        return false;
    if (e->in[i].count != rank)
        return fail(e, mf_make_error(MF_ERROR_SHAPE, "einsum \"%s\": \"%.*s\" has %d subscripts, but operand %d has %d dimensions", e->text,
                                     (int)(end - from), from, named, i, rank));
    e->dots = dots > e->dots ? dots : e->dots;
    return true;
}

/* The output without "->": the dimensions of "...", then the labels that occur exactly once, in alphabetical order. */
static bool imply_output(einsum *e)
{
    for (int i = MF_MAX_RANK - e->dots; i < MF_MAX_RANK; i++)
        if (!put(e, &e->out, DOTS + i))
            return false;
    for (int label = 'A'; label <= 'z'; label++) {
        int seen = 0;
        for (int i = 0; i < e->count; i++)
            for (int k = 0; k < e->in[i].count; k++)
                seen += e->in[i].label[k] == label;
        if (seen == 1 && !put(e, &e->out, label))
            return false;
    }
    return true;
}

static bool check_output(einsum *e)
{
    for (int i = 0; i < e->out.count; i++) {
        int label = e->out.label[i], seen = 0;
        for (int k = 0; k < e->count; k++)
            seen += has(&e->in[k], label);
        for (int k = 0; k < i; k++)
            if (e->out.label[k] == label)
                return fail(e,
                            mf_make_error(MF_ERROR_ARGUMENT, "einsum \"%s\": subscript '%c' stands twice in the output", e->text, label));
        if (!seen && label < DOTS)
            return fail(e, mf_make_error(MF_ERROR_ARGUMENT, "einsum \"%s\": output subscript '%c' is in no operand", e->text, label));
    }
    return true;
}

static bool read_subscripts(einsum *e)
{
    const char *arrow = strstr(e->text, "->"), *end = arrow ? arrow : e->text + strlen(e->text), *from = e->text;
    for (int i = 0; i < e->count; i++) {
        const char *comma = memchr(from, ',', (size_t)(end - from)), *until = comma ? comma : end;
        if (!comma != (i == e->count - 1))
            return fail(e, mf_make_error(MF_ERROR_ARGUMENT, "einsum \"%s\": the subscripts are not for %d operand%s", e->text, e->count,
                                         e->count == 1 ? "" : "s"));
        if (!read_operand(e, i, from, until))
            return false;
        from = until + 1;
    }
    return (arrow ? read_term(e, &e->out, arrow + 2, arrow + strlen(arrow), e->dots) : imply_output(e)) && check_output(e);
}

/* ---- sizes. A dimension of size 1 whose label has another size elsewhere broadcasts: it is squeezed out. */
static bool note_size(einsum *e, int operand, int label, int64_t size)
{
    int64_t known = e->size[label];
    bool fresh = known == 0 && !e->empty[label];
    if (!fresh && known != size && known != 1 && size != 1)
        return fail(e, label < DOTS
                           ? mf_make_error(MF_ERROR_SHAPE, "einsum \"%s\": subscript '%c' has size %lld in operand %d, but %lld before",
                                           e->text, label, (long long)size, operand, (long long)known)
                           : mf_make_error(MF_ERROR_SHAPE, "einsum \"%s\": the dimensions of \"...\" in operand %d do not broadcast",
                                           e->text, operand));
    if (fresh || known == 1) {
        e->size[label] = size;
        e->empty[label] = size == 0;
    }
    return true;
}

static bool note_sizes(einsum *e)
{
    for (int i = 0; i < e->count; i++)
        for (int k = 0; k < e->in[i].count; k++)
            if (!note_size(e, i, e->in[i].label[k], mf_dim(e->in[i].x, k)))
                return false;
    return true;
}

static void forget(term *t, int at)
{
    t->count--;
    memmove(t->label + at, t->label + at + 1, (size_t)(t->count - at) * sizeof *t->label);
}

static void drop_stretched(const einsum *e, term *t)
{
    for (int k = t->count - 1; k >= 0; k--)
        if (mf_dim(t->x, k) == 1 && e->size[t->label[k]] != 1) {
            t->x = mf_squeeze(t->x, k);
            forget(t, k);
        }
}

/* ---- one operand */
static mf_value sum_over(mf_value x, int axis) { return mf_sum(x, .axis = axis, .dtype = mf_dtype_of(x)); }

/* A label that occurs twice in a term selects the diagonal. */
static void take_diagonals(term *t)
{
    for (int q = t->count - 1; q > 0; q--)
        for (int p = 0; p < q; p++)
            if (t->label[p] == t->label[q]) {
                mf_shape shape = mf_shape_of(t->x);
                mf_value same = mf_equal(mf_iota(MF_I32, shape, p), mf_iota(MF_I32, shape, q));
                t->x = sum_over(mf_where(same, t->x, mf_zeros_like(t->x)), q);
                forget(t, q);
                break;
            }
}

/* Whether the result, or an operand from number `from` on, has the label. */
static bool wanted(const einsum *e, int label, int from)
{
    bool found = has(&e->out, label);
    for (int i = from; i < e->count; i++)
        found = found || has(&e->in[i], label);
    return found;
}

/* Sums over the labels that no other term needs. */
static void sum_alone(const einsum *e, term *t, const term *other, int from)
{
    for (int k = t->count - 1; k >= 0; k--)
        if (!(other && has(other, t->label[k])) && !wanted(e, t->label[k], from)) {
            t->x = sum_over(t->x, k);
            forget(t, k);
        }
}

/* ---- two operands */
static int position(const term *t, int label)
{
    int at = 0;
    while (t->label[at] != label)
        at++;
    return at;
}

static void append(mf_ints *list, int64_t x) { list->at[list->count++] = x; }

/* Replaces a by the contraction of a and b; operands from number `from` on follow. False if the result has too many dimensions. */
static bool contract(einsum *e, term *a, term *b, int from)
{
    mf_dot_options o = { .preferred_element_type = MF_DTYPE_DEFAULT };
    term out = { .count = 0 };
    sum_alone(e, a, b, from);
    sum_alone(e, b, a, from);
    for (int k = 0; k < a->count; k++) {
        int label = a->label[k];
        bool both = has(b, label), kept = wanted(e, label, from);
        if (both) {
            append(kept ? &o.lhs_batch : &o.lhs_contracting, k);
            append(kept ? &o.rhs_batch : &o.rhs_contracting, position(b, label));
        }
        if (both && kept && !put(e, &out, label))
            return false;
    }
    for (int k = 0; k < a->count; k++)
        if (!has(b, a->label[k]) && !put(e, &out, a->label[k]))
            return false;
    for (int k = 0; k < b->count; k++)
        if (!has(a, b->label[k]) && !put(e, &out, b->label[k]))
            return false;
    out.x = mf_dot_general_opt(a->x, b->x, &o);
    *a = out;
    return true;
}

static mf_value in_order(const einsum *e, const term *t)
{
    mf_ints order = { .count = 0 };
    for (int i = 0; i < e->out.count; i++)
        append(&order, position(t, e->out.label[i]));
    return order.count ? mf_transpose(t->x, order) : t->x;
}

static bool evaluate(einsum *e)
{
    if (!read_subscripts(e) || !note_sizes(e))
        return false;
    for (int i = 0; i < e->count; i++) {
        drop_stretched(e, &e->in[i]);
        take_diagonals(&e->in[i]);
    }
    term all = e->in[0];
    for (int i = 1; i < e->count; i++)
        if (!contract(e, &all, &e->in[i], i + 1))
            return false;
    sum_alone(e, &all, NULL, e->count);
    return fail(e, in_order(e, &all)); /* stores the result in e->error */
}

mf_value mf_einsum_n(const char *subscripts, const mf_value *operands, int count)
{
    MF_LAYER;
    einsum e = { .text = subscripts, .count = count };
    if (count < 1 || count > OPERANDS)
        return mf_make_error(MF_ERROR_ARGUMENT, "einsum takes between 1 and %d operands, not %d", OPERANDS, count);
    for (int i = 0; i < count; i++) {
        e.in[i].x = operands[i];
        if (mf_is_error(operands[i]))
            return operands[i];
        if (mf_ndim(operands[i]) < 0)
            return mf_add(operands[i], 0); /* the error that this is no array */
    }
    evaluate(&e);
    return e.error;
}
