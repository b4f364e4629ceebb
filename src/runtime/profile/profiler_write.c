/* Writes a Chrome trace: a JSON object with an event for every slice, and the names of the tracks. Invariant: slices of a track are
 * disjoint or nested, as viewers require; a device that two runs share, or a kind of track with overlapping slices, gets more tracks. */
#include "runtime/profile/profiler.h"

#include "base/text/location.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LANES 64
#define DEPTH 64

typedef struct lane { /* a track, and the ends of its open slices, innermost last */
    int open;
    int64_t end[DEPTH];
} lane;

typedef struct writer {
    FILE *file;
    int64_t begin;
    int tracks; /* written so far */
    int of[5];  /* tracks of each kind */
    bool any;   /* an event has been written */
    int lanes;
    lane lane[LANES]; /* of the current track */
} writer;

static int compare(const void *left, const void *right)
{
    const mf_profile_slice *a = left, *b = right;
    if (a->track != b->track)
        return a->track < b->track ? -1 : 1;
    if (a->index != b->index)
        return a->index < b->index ? -1 : 1;
    if (a->start != b->start)
        return a->start < b->start ? -1 : 1;
    return a->end > b->end ? -1 : a->end < b->end;
}

/* ------------------------------------------------------------------ JSON */

static void put_string(FILE *f, const char *s)
{
    fputc('"', f);
    for (; *s; s++) {
        if (*s == '"' || *s == '\\')
            fputc('\\', f);
        if ((unsigned char)*s < 0x20)
            fprintf(f, "\\u%04x", (unsigned)*s);
        else
            fputc(*s, f);
    }
    fputc('"', f);
}

static void next_event(writer *w)
{
    fputs(w->any ? ",\n" : "\n", w->file);
    w->any = true;
}

static void put_track_name(writer *w, int tid, const char *name)
{
    next_event(w);
    fprintf(w->file, "{\"ph\":\"M\",\"pid\":1,\"tid\":%d,\"name\":\"thread_name\",\"args\":{\"name\":", tid);
    put_string(w->file, name);
    fputs("}}", w->file);
    next_event(w);
    fprintf(w->file, "{\"ph\":\"M\",\"pid\":1,\"tid\":%d,\"name\":\"thread_sort_index\",\"args\":{\"sort_index\":%d}}", tid, tid);
}

static const char *category(int track)
{
    static const char *const names[] = { "host", "compiler", "collective", "uniform", "device" };
    return names[track];
}

/* Every line once; equal texts have equal addresses. */
static void put_locations(FILE *f, const mf_profile_label *label)
{
    const char *listed[MF_PROFILE_LOCATIONS];
    int count = 0;
    for (int i = 0; i < MF_PROFILE_LOCATIONS && label->locations[i]; i++) {
        const char *location = mf_location_of(label->locations[i]);
        int k = 0;
        while (k < count && listed[k] != location)
            k++;
        if (!location || k < count)
            continue;
        if (count)
            fputc(',', f);
        put_string(f, location);
        listed[count++] = location;
    }
}

static void put_slice(writer *w, const mf_profile_slice *s, int tid)
{
    next_event(w);
    fprintf(w->file, "{\"ph\":\"X\",\"pid\":1,\"tid\":%d,\"cat\":\"%s\",\"ts\":%.3f,\"dur\":%.3f,\"name\":", tid, category(s->track),
            (double)(s->start - w->begin) / 1e3, (double)(s->end - s->start) / 1e3);
    put_string(w->file, s->label->name);
    fputs(",\"args\":{\"source\":[", w->file);
    put_locations(w->file, s->label);
    fputc(']', w->file);
    if (s->bytes)
        fprintf(w->file, ",\"bytes_a_device\":%lld", (long long)s->bytes);
    fputs("}}", w->file);
}

/* ------------------------------------------------------------------ tracks */

static bool fits(lane *l, const mf_profile_slice *s)
{
    while (l->open && l->end[l->open - 1] <= s->start)
        l->open--;
    return l->open < DEPTH && (!l->open || s->end <= l->end[l->open - 1]);
}

static int find_lane(writer *w, const mf_profile_slice *s)
{
    int at = 0;
    while (at < w->lanes && !fits(&w->lane[at], s))
        at++;
    if (at == LANES)
        return LANES - 1; /* overlaps others; the viewer has to cope */
    if (at == w->lanes)
        w->lane[w->lanes++].open = 0;
    w->lane[at].end[w->lane[at].open++] = s->end;
    return at;
}

static void name_lane(writer *w, const mf_profile_slice *s, int at)
{
    static const char *const names[] = { "host", "compiler", "collectives", "once for all devices", "device" };
    char name[80];
    int number = w->of[s->track];
    if (s->track == MF_TRACK_DEVICE)
        snprintf(name, sizeof name, "device %d%s", s->index, at ? ", another run" : "");
    else if (number + at == 0)
        snprintf(name, sizeof name, "%s", names[s->track]);
    else
        snprintf(name, sizeof name, "%s %d", names[s->track], number + at + 1);
    put_track_name(w, w->tracks + at + 1, name);
}

/* Writes the slices of one kind and index, in order. */
static int64_t put_tracks(writer *w, const mf_profile_slice *slices, int64_t count)
{
    int64_t n = 0;
    w->lanes = 0;
    for (; n < count && slices[n].track == slices[0].track && slices[n].index == slices[0].index; n++)
        put_slice(w, &slices[n], w->tracks + find_lane(w, &slices[n]) + 1);
    for (int at = 0; at < w->lanes; at++)
        name_lane(w, &slices[0], at);
    w->tracks += w->lanes;
    w->of[slices[0].track] += w->lanes;
    return n;
}

bool mf_profile_write(void *file, mf_profile_slice *slices, int64_t count, int64_t begin, int64_t dropped)
{
    writer w = { .file = file, .begin = begin };
    int64_t kept = 0;
    for (int64_t i = 0; i < count; i++)
        if (slices[i].start >= begin) /* else it is a late one of the previous session */
            slices[kept++] = slices[i];
    qsort(slices, (size_t)kept, sizeof *slices, compare);
    fprintf(w.file, "{\"displayTimeUnit\":\"ns\",\"otherData\":{\"program\":\"manyfold\",\"slices_dropped\":%lld},\"traceEvents\":[",
            (long long)dropped);
    for (int64_t at = 0; at < kept;)
        at += put_tracks(&w, slices + at, kept - at);
    next_event(&w);
    fputs("{\"ph\":\"M\",\"pid\":1,\"name\":\"process_name\",\"args\":{\"name\":\"manyfold\"}}\n]}\n", w.file);
    bool written = !ferror(w.file);
    return fclose(w.file) == 0 && written;
}
