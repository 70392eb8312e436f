/* Small files of a folder that belong together. Each is completed under a temporary name; when all are complete, they get
 * their names:
 *
 *     th_file_set set = {.ctx = ctx, .operation = operation, .folder = folder};
 *     th_status status = th_file_set_make_folder(&set);
 *     if (status == TH_OK)
 *         status = th_file_set_add(&set, "config.json", write_config, &options);
 *     if (status == TH_OK)
 *         status = th_file_set_publish(&set);
 *     th_file_set_free(&set);
 *
 * The last file marks the folder as complete. A caller that replaces other files, too, removes its old version first
 * (th_file_set_remove_old_version), so that the folder never has the mark of one model and a file of another. */
#ifndef TH_MODELS_FILES_FILE_SET_H
#define TH_MODELS_FILES_FILE_SET_H

#include "tapehead/base.h"

typedef struct th_set_file th_set_file;

typedef struct th_file_set {
    /* the caller's: */
    th_context *ctx;
    const char *operation, *folder;
    /* private: */
    th_set_file *first, *last;
    bool folder_is_new; /* the folder is new, and nothing in it has its name yet */
} th_file_set;

/* Writes the content of a file. Returns false, with errno if it is known, if that is not possible. */
typedef bool th_set_writer(FILE *file, const void *content);

/* Creates the folder if it does not exist. th_file_set_free removes it again, unless something is published. */
th_status th_file_set_make_folder(th_file_set *s);
/* Writes a file under a temporary name. After an error the folder is as before. */
th_status th_file_set_add(th_file_set *s, const char *name, th_set_writer *writer, const void *content);
/* Notes that th_file_set_publish removes the file of this name, if there is one. */
th_status th_file_set_add_removal(th_file_set *s, const char *name);
/* Removes the old version of the last file. */
th_status th_file_set_remove_old_version(th_file_set *s);
/* Gives the files their names, in the order in which they were added. After an error the other files are not
 * published. */
th_status th_file_set_publish(th_file_set *s);
/* Discards what is not published, and releases the memory. */
void th_file_set_free(th_file_set *s);

#endif
