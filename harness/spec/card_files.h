/* The device files of configs/devices as the build embeds them (cmake/Embed.cmake). */
#ifndef TM_CARD_FILES_H
#define TM_CARD_FILES_H

struct card_file { const char *name, *text; };
extern const struct card_file card_files[];       /* sorted by name; name NULL ends */

#endif
