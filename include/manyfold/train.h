/* manyfold/train.h - watching a training: a progress bar, and a log of metrics as JSON lines, for
 * TensorBoard, as curves and as a table.
 *
 * Metrics are trees of numbers: arrays with one element, of shape () or (1, ...) and any dtype; the
 * name of a leaf is its path, "train/loss". What is opened here belongs to no scope; close it. Each
 * object is used by one thread at a time. Errors: MF_ERROR_IO, which names the file. */
#ifndef MANYFOLD_TRAIN_H
#define MANYFOLD_TRAIN_H
#ifndef MF_CHECK_HEADERS_
#pragma GCC system_header
#endif

#include <manyfold/base.h>

MF_BEGIN_

/* ---- progress: shows on stdout how far a loop is: a bar with the rate and the remaining time on a
 * terminal; otherwise a line at every tenth of the way, so that logs stay short. */
typedef struct mf_progress mf_progress;
/* done: steps that were done before, when resuming. unit, per_step: the rate is shown in .unit
 * ("steps" by default), of which a step has .per_step (0: 1): "images", 128. silent: prints
 * nothing */
typedef struct mf_progress_options {
    int64_t done;
    double per_step;
    const char *unit;
    bool silent;
    mf_reserved reserved_;
} mf_progress_options;
/* `steps` is the number in all. Label and unit are copied. NULL when out of memory, which the other
 * functions treat as silent */
mf_progress *mf_progress_open_opt(const char *label, int64_t steps, const mf_progress_options *o);
/* One step is done. `said` is printed beside the bar, "loss 0.4"; it may be NULL */
void mf_progress_step(mf_progress *p, const char *said);
void mf_progress_close(mf_progress *p);

/* ---- log books: a folder with the metrics of a training:
 *     metrics.jsonl             a line for each call: {"step": 10, "time": 1700000000.5, "loss":
 *     0.25};
 *                               values that are not finite are "NaN", "Infinity" or "-Infinity"
 *     events.out.tfevents...    the same for TensorBoard, one file for each log book opened
 *     curves.png, curves.svg    drawn when it is closed: a picture for each last part of a name,
 *     with
 *                               a curve for each name: "train/loss" together with "test/loss"
 * In a folder that has such files, metrics.jsonl is appended to and the curves are replaced. Curves
 * and table include earlier runs from metrics.jsonl; where a later run has logged a name again from
 * an earlier step on, because it was resumed or restarted, its points replace the older ones. A
 * thread waits for the numbers and writes them, so the caller waits for neither. */
typedef struct mf_logbook mf_logbook;
typedef struct mf_logbook_options {
    bool no_jsonl, no_tensorboard, no_curves;
    mf_reserved reserved_;
} mf_logbook_options;
/* Never NULL: an error shows at the first write. The folder is made if needed; its parent must
 * exist. The options leave out files */
mf_logbook *mf_logbook_open_opt(const char *folder, const mf_logbook_options *o);
/* tree -> files: the metrics of a step; a name may be logged at any step. MF_ERROR_TREE for leaves
 * that are no numbers. Also returns an error that was found since the last call, such as one of an
 * earlier metric */
mf_status mf_logbook_write(mf_logbook *b, int64_t step, mf_value metrics);
/* A table of text: for each name the first and last value, and the least and greatest with their
 * steps. Waits for all metrics. Valid until the next call or the close; NULL in the child of a
 * fork */
const char *mf_logbook_table(mf_logbook *b);
/* Waits for all metrics, draws the curves and frees the log book; returns the first error that no
 * write has returned. NULL does nothing */
mf_status mf_logbook_close(mf_logbook *b);

MF_END_

#include <manyfold/lift/train.h>

#endif
