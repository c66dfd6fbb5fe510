/* Types of numbers, alone in a header that kernels can include too. */
#ifndef TM_DTYPE_H
#define TM_DTYPE_H

/* I16 holds the low half of a split master weight; only the update reads it. */
enum dtype { DT_F32, DT_BF16, DT_F16, DT_I32, DT_I16, DT_N };

#endif
