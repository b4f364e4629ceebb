#include "runtime/collectives/schedule/frontier.h"

static int64_t end_of(int64_t n, int64_t first, int64_t width) { return width < n - first ? first + width : n; }

/* The greatest node that begins at `first` and ends at or before `to`. */
static mf_subtree greatest(int64_t n, int64_t first, int64_t to)
{
    int64_t width = 1;
    while (width < n && first % (2 * width) == 0 && end_of(n, first, 2 * width) <= to)
        width *= 2;
    return (mf_subtree){ first, end_of(n, first, width) - first };
}

int mf_frontier(int64_t n, int64_t from, int64_t to, mf_subtree *out)
{
    int count = 0;
    for (int64_t at = from; at < to; at += out[count++].count)
        out[count] = greatest(n, at, to);
    return count;
}

static bool is_node(int64_t n, mf_subtree s)
{
    int64_t width = 1;
    while (width < s.count)
        width *= 2;
    return s.first >= 0 && s.count > 0 && s.first % width == 0 && end_of(n, s.first, width) == s.first + s.count;
}

bool mf_subtree_siblings(int64_t n, mf_subtree a, mf_subtree b)
{
    bool full = (a.count & (a.count - 1)) == 0; /* a left sibling is a full subtree */
    return full && a.first % (2 * a.count) == 0 && b.first == a.first + a.count && b.first + b.count == end_of(n, b.first, a.count);
}

/* parts[at[0 .. top]] are nodes that wait for their right siblings; at[] has the position of each one's leftmost part. */
bool mf_frontier_combine(int64_t n, mf_subtree *parts, int count, void (*combine)(void *context, int into, int from), void *context)
{
    int at[MF_FRONTIER_MAX + 1], top = -1;
    int64_t covered = 0;
    for (int i = 0; i < count; i++) {
        if (parts[i].first != covered || !is_node(n, parts[i]) || top >= MF_FRONTIER_MAX)
            return false;
        covered += parts[i].count;
        at[++top] = i;
        while (top > 0 && mf_subtree_siblings(n, parts[at[top - 1]], parts[at[top]])) {
            combine(context, at[top - 1], at[top]);
            parts[at[top - 1]].count += parts[at[top]].count;
            top--;
        }
    }
    return covered == n && top == 0;
}
