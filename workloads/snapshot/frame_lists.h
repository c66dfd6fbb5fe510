/*
 * Lists of frames in a pickle. Recorders write the stack of every event as a
 * list of its own, of dozens of frames that are in the memo: three quarters
 * of many files are the same few hundred lists again and again. The bytes of
 * a list tell which stack it is, as long as the memo stays what it was.
 */
#ifndef TM_SNAP_FRAME_LISTS_H
#define TM_SNAP_FRAME_LISTS_H

#include "snapshot/build.h"

/* The last list read of each hash; set seed (of the hashes), and zero the rest. */
struct frame_lists {
	uint64_t seed;
	struct frame_list *slot;          /* NULL: none was read so far */
};

void frame_lists_free(struct frame_lists *l);

/*
 * A list of frames out of the memo and nothing else: p is behind the MARK,
 * end before the input's by the bytes of an opcode at least; `list` is on the
 * stack, below the mark. Returns what is behind the APPENDS. NULL: something
 * else, or no room; nothing has changed.
 */
const uint8_t *frame_lists_read(struct frame_lists *l, struct snap_build *b, const uint8_t *p, const uint8_t *end,
				struct snap_value *list);

#endif
