/* manyfold/train.h - watching a training: a progress bar; metrics as JSON lines, for TensorBoard,
 * as curves and as a table.
 *
 * Metrics are trees of numbers: arrays of one element, of any shape () or (1, ...) and dtype; a leaf
 * is named by its path, "train/loss". What is opened here belongs to nobody's scope: close it. One
 * thread at a time each. Errors: MF_ERROR_IO names the file. */
#ifndef MANYFOLD_TRAIN_H
#define MANYFOLD_TRAIN_H
#ifndef MF_CHECK_HEADERS_
#pragma GCC system_header
#endif

#include <manyfold/base.h>

MF_BEGIN_

/* ---- progress. A line that tells how far a loop is: a bar with rate and remaining time where
 * stdout is a terminal, else a plain line every tenth of the way, so that logs stay short. */
typedef struct mf_progress mf_progress;
/* done: steps that are done already. per_step: so many of .unit a step ("images"); 0: 1, "steps".
 * silent: nothing is written */
typedef struct mf_progress_options {
    int64_t done;
    double per_step;
    const char *unit;
    bool silent;
    mf_reserved reserved_;
} mf_progress_options;
/* Label and unit are copied. NULL where memory is short, which the others take for one that is
 * silent */
mf_progress *mf_progress_open_opt(const char *label, int64_t steps, const mf_progress_options *o);
/* A step is done; said is what the loop has to tell, "loss 0.4", or NULL */
void mf_progress_step(mf_progress *p, const char *said);
void mf_progress_close(mf_progress *p);

/* ---- the log book: a folder with what a training told:
 *     metrics.jsonl             a line a call: {"step": 10, "time": 1700000000.5, "loss": 0.25};
 *                               what is no number is "NaN", "Infinity" or "-Infinity"
 *     events.out.tfevents...    the same for TensorBoard, a file a log book
 *     curves.png, curves.svg    drawn when it is closed: a picture for each name's last part, with
 *                               a curve for each name: "train/loss" beside "test/loss"
 * Files that are there are gone on with (metrics.jsonl) or replaced (curves). Curves and table begin
 * with what metrics.jsonl has of runs before; where a run told a name from an earlier step on, as one
 * that was resumed or begun anew, its points take the place of the others'. A thread waits for the
 * numbers and writes them: the caller waits for neither. */
typedef struct mf_logbook mf_logbook;
typedef struct mf_logbook_options {
    bool no_jsonl, no_tensorboard, no_curves;
    mf_reserved reserved_;
} mf_logbook_options;
/* The folder is made; the one around it is there. NULL never: an error shows at the first write */
mf_logbook *mf_logbook_open_opt(const char *folder, const mf_logbook_options *o);
/* tree -> files: at that step. MF_ERROR_TREE for what are no numbers; an error that was found since
 * the last call, also that of a metric */
mf_status mf_logbook_write(mf_logbook *b, int64_t step, mf_value metrics);
/* A table: of each name the first and the last value, the least and the greatest, and where. Waits.
 * Lives until the next call or the close; NULL in the
 * child of a fork */
const char *mf_logbook_table(mf_logbook *b);
/* Waits, draws, and ends it; the first error that no write has given. NULL is none */
mf_status mf_logbook_close(mf_logbook *b);

MF_END_

#include <manyfold/lift/train.h>

#endif
