/* segno.h: F2FS volumes without a mount and without privileges.
 *
 * Made from crates/capi by `UPDATE_DOCS=1 cargo test -p segno-capi header`; do not edit.
 *
 * Results: a function that returns int or int64_t returns 0 or more if it did its work, and a negative errno value if not;
 * segno_last_error() then has a message. -EUCLEAN (-117) means that the volume is damaged; the message names the structure and
 * where it is. -EIO may be a bug in Segno, as the message says then; the volume has stopped.
 *
 * Paths are bytes that end with a NUL. They start at the root of the volume, with or without a slash, and cannot leave it.
 *
 * Pointers must be valid for what they are used for; null is refused with -EFAULT where it has no meaning. Handles
 * (segno_volume, segno_file, segno_dir) are valid until they are closed. Threads may share volumes and files, but must not use
 * a handle while it is being closed, nor a segno_dir at the same time. A child made by fork() must not use them at all.
 */


#ifndef SEGNO_H
#define SEGNO_H

#include <stddef.h>
#include <stdint.h>

// Of `segno_check_options.flags`: read only the tables of a volume that was unmounted cleanly, if nothing is wrong with them.
#define SEGNO_CHECK_QUICK 1

// Of `segno_check_options.flags`: read the content of compressed files, too.
#define SEGNO_CHECK_DATA 2

// Of `segno_check_options.flags`: `segno_repair` writes nothing, so that its actions are a plan.
#define SEGNO_REPAIR_PLAN 4

// In the result of `segno_check_replayed`: there are errors.
#define SEGNO_FOUND_ERRORS 1

// In the result of `segno_check_replayed`: changes left by a crash were replayed in memory. `segno_replay`
// writes them.
#define SEGNO_FOUND_REPLAY 2

// In the result of `segno_check_replayed`: `segno_repair` has something to do.
#define SEGNO_FOUND_REPAIRABLE 4

// Of `segno_file_open`: allow reading.
#define SEGNO_READ 1

// Of `segno_file_open`: allow writing.
#define SEGNO_WRITE 2

// Of `segno_file_open`: allow writing at the end only.
#define SEGNO_APPEND 4

// Of `segno_file_open`: create the file if it is missing.
#define SEGNO_CREATE 8

// Of `segno_file_open`: create the file, and fail if there is anything of that name.
#define SEGNO_CREATE_NEW 16

// Of `segno_file_open`: empty the file.
#define SEGNO_TRUNCATE 32

// Of `segno_build_options.flags`: replace an existing file.
#define SEGNO_BUILD_FORCE 1

// Of `segno_build_options.flags`: the layout of volumes that are never written, without reserve.
#define SEGNO_BUILD_READ_ONLY 2

// Of `segno_build_options.flags`: write the Android sparse format.
#define SEGNO_BUILD_SPARSE 4

// Of `segno_build_options.flags`: everything belongs to user and group 0, instead of its owner in the source.
#define SEGNO_BUILD_ROOT_OWNED 8

// Of `segno_extract_options.flags`: the target is a tar archive, which must not exist, instead of a directory.
#define SEGNO_EXTRACT_TAR 1

// Of `segno_extract_options.preserve`: set-user-ID and set-group-ID bits, of directories too.
#define SEGNO_PRESERVE_SETID 1

// Of `segno_extract_options.preserve`: character and block devices.
#define SEGNO_PRESERVE_DEVICES 2

// Of `segno_extract_options.preserve`: file capabilities, `security.capability`.
#define SEGNO_PRESERVE_CAPS 4

// Of `segno_extract_options.preserve`: extended attributes `trusted.*`.
#define SEGNO_PRESERVE_TRUSTED 8

// Of `segno_open_options.flags`: allow changes. Without it, several processes may read one image.
#define SEGNO_WRITABLE 1

// Of `segno_open_options.flags`: show the volume as of its last checkpoint, without data that was fsynced
// later and is to be recovered. Not together with `SEGNO_WRITABLE`.
#define SEGNO_SKIP_RECOVERY 2

// An open directory, for one thread at a time.
typedef struct segno_dir segno_dir;

// An open file. Threads may share it.
typedef struct segno_file segno_file;

// An open volume. Threads may share it.
typedef struct segno_volume segno_volume;

// A point in time since 1970-01-01 UTC.
typedef struct {
  // Seconds, negative before 1970.
  int64_t sec;
  // Nanoseconds within the second.
  uint32_t nsec;
  // Zero.
  uint32_t unused;
} segno_time;

// Attributes of a file.
typedef struct {
  // Size in bytes.
  uint64_t size;
  // Space taken, in units of 512 bytes.
  uint64_t blocks;
  // Type and permission bits, as `st_mode`.
  uint32_t mode;
  // Inode number.
  uint32_t ino;
  // Number of names.
  uint32_t nlink;
  // User.
  uint32_t uid;
  // Group.
  uint32_t gid;
  // Project.
  uint32_t project;
  // Of a device node, else 0.
  uint32_t major;
  // Of a device node, else 0.
  uint32_t minor;
  // Flags that chattr(1) shows.
  uint32_t flags;
  // Tells apart files that had the same inode number one after the other.
  uint32_t generation;
  // Last access.
  segno_time atime;
  // Last change of content.
  segno_time mtime;
  // Last change of content or attributes.
  segno_time ctime;
  // Creation; zeros on volumes that do not store it.
  segno_time btime;
} segno_stat_t;

// Receives a problem that a check found: whether it is an error or a warning, and its description.
typedef void (*segno_finding)(void *context, int is_error, const char *text);

// How to check, repair or replay. Zeros and null pointers are the defaults.
typedef struct {
  // `sizeof(segno_check_options)`: later versions may add fields.
  uint32_t size;
  // `SEGNO_CHECK_QUICK` and others.
  uint32_t flags;
  // File or device of the external journal; null for none.
  const char *journal;
  // Further devices of the volume, as in `segno_open_options`.
  const char *const *devices;
} segno_check_options;

// Receives what a repair does: whether something is lost that the volume had, or may have had, and a description.
typedef void (*segno_action)(void *context, int is_loss, const char *text);

// A name in a directory.
typedef struct {
  // Inode number.
  uint32_t ino;
  // The type of the file, as the `DT_` constants of readdir(3); 0 if only `segno_stat` returns it.
  uint8_t kind;
  // Length of the name in bytes.
  uint8_t name_len;
  // The name, followed by a NUL.
  char name[256];
} segno_dirent;

// How to build an image. Zeros and null pointers are the defaults.
typedef struct {
  // `sizeof(segno_build_options)`: later versions may add fields.
  uint32_t size;
  // `SEGNO_BUILD_READ_ONLY` and others.
  uint32_t flags;
  // Size of the image in bytes; 0 for the smallest volume that holds the tree.
  uint64_t image_bytes;
  // Volume label, or null.
  const char *label;
  // The 16 bytes of the volume id; null for one that is derived from the tree.
  const uint8_t *uuid;
  // All times of all files, in seconds since 1970; null for the times of the source.
  const uint64_t *time;
  // Latest time of a file, in seconds since 1970, which replaces later ones; null for none.
  const uint64_t *source_date_epoch;
  // Algorithm and level for files, such as `lz4` or `zstd:19`; null to compress nothing.
  const char *compress;
  // Blocks of a compressed cluster, as a power of two from 2 to 8; 0 for 2.
  uint32_t log_cluster;
  // Unused, 0.
  uint32_t reserved;
  // The manifest that `segno_extract` wrote, or null.
  const char *manifest;
  // File or device of the external journal of a source that is an image; null for none.
  const char *journal;
  // Further devices of a source that is an image, as in `segno_open_options`.
  const char *const *devices;
} segno_build_options;

// The counts of a build.
typedef struct {
  // Size of the image; of a sparse image, its size when unpacked.
  uint64_t image_bytes;
  // Space that is left for files.
  uint64_t free_bytes;
  // Inodes in the image, with the root.
  uint64_t files;
  // Sizes of all files, each counted once.
  uint64_t content_bytes;
  // Files with compressed clusters.
  uint64_t compressed_files;
  // Space that compression saves. It is free only where it is released.
  uint64_t saved_bytes;
  // The volume's id.
  uint8_t uuid[16];
} segno_build_report;

// Which tree to extract, and how. Zeros and null pointers are the defaults.
typedef struct {
  // `sizeof(segno_extract_options)`: later versions may add fields.
  uint32_t size;
  // `SEGNO_EXTRACT_TAR` or 0.
  uint32_t flags;
  // The directory on the volume to extract, with everything below it; null for all.
  const char *path;
  // File for all metadata, which `segno_build` reads; null for none.
  const char *manifest;
  // File or device of the external journal of the volume; null for none.
  const char *journal;
  // Further devices of the volume, as in `segno_open_options`.
  const char *const *devices;
  // `SEGNO_PRESERVE_SETID` and others: properties that files in a directory get though they are a matter of trust, as an image
  // may be a stranger's. Archives and manifests have all.
  uint32_t preserve;
  // Unused, 0.
  uint32_t reserved;
} segno_extract_options;

// The counts of an extraction.
typedef struct {
  // Files, directories and others, each inode once.
  uint64_t files;
  // Bytes of content.
  uint64_t bytes;
  // Names that the host cannot store; the manifest has them.
  uint64_t renamed;
  // Files with metadata that the target does not have; the manifest has it.
  uint64_t incomplete;
  // Properties of files that were left out, as `segno_extract_options.preserve` does not have them.
  uint64_t left_out;
} segno_extract_report;

// How to open a volume. Zeros are the defaults.
typedef struct {
  // `sizeof(segno_open_options)`: later versions may add fields.
  uint32_t size;
  // `SEGNO_WRITABLE` and others.
  uint32_t flags;
  // Memory for cached data and metadata, in bytes; 0 for 256 MiB.
  uint64_t cache_bytes;
  // File or device of the external journal; null for none. A volume that was mounted with one and not unmounted is not opened
  // without it: the result is `-ENODEV`. With `SEGNO_WRITABLE`, a file of zeros becomes a journal; `segno journal create`
  // also allocates storage for its holes, for which commits otherwise wait.
  const char *journal;
  // Paths of the further devices of a volume of several, in order, ended by a null pointer; null for none. Paths that the volume
  // records are not opened: without its devices the result is `-EINVAL`.
  const char *const *devices;
} segno_open_options;

// Space and inodes of a volume.
typedef struct {
  // Bytes in a block.
  uint64_t block_size;
  // All blocks.
  uint64_t blocks;
  // Free blocks that files can use.
  uint64_t blocks_free;
  // Files and directories that there can be.
  uint64_t files;
  // Those that can still be created.
  uint64_t files_free;
} segno_statfs_t;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Attributes of the file at a path. With `nofollow`, a symbolic link at its end is not followed.
int segno_stat(segno_volume *volume, const char *name, int nofollow, segno_stat_t *into);

// Sets permission bits.
int segno_chmod(segno_volume *volume, const char *name, uint32_t mode);

// Sets user and group.
int segno_chown(segno_volume *volume, const char *name, uint32_t uid, uint32_t gid, int nofollow);

// Sets the times of the last access and of the last change of content.
int segno_utimes(segno_volume *volume, const char *name, segno_time atime, segno_time mtime, int nofollow);

// Cuts a file, or extends it by a hole that reads as zeros.
int segno_truncate(segno_volume *volume, const char *name, uint64_t size);

// Checks a volume that is not open, and changes nothing. The result is 0 if no error was found, 1 if there
// are errors, and negative if the check was not possible. `finding` may be null; otherwise it is called for
// up to 1000 problems, with `context`. Changes that a crash left to replay are not checked, see
// `segno_check_replayed`.
int segno_check(const char *image, segno_finding finding, void *context);

// Checks a volume of several devices like `segno_check`: `devices` has the paths of all of them, the one with the superblock first,
// and ends with a null pointer.
int segno_check_several(const char *const *devices,
                        segno_finding finding,
                        void *context);

// Checks a volume that is not open like `segno_check`, with the changes left by a crash replayed in memory,
// and changes nothing. The result is 0 if there is nothing to do, a combination of `SEGNO_FOUND_ERRORS` and
// others, and negative if the check was not possible. It is an error, too, if the changes left by a crash
// cannot be replayed, or an external journal is needed. `options` may be null.
int segno_check_replayed(const char *image,
                         const segno_check_options *options,
                         segno_finding finding,
                         void *context);

// Repairs a volume that is not open. The result is 0 if there is nothing to repair, 1 if it was repaired,
// and negative if that was not possible: `-EUCLEAN` where the repair would give up an external journal or a
// lost checkpoint. `action` may be null; otherwise it is called, with `context`, for each action, before the
// action is written. A power cut meanwhile leaves the volume as it was, or repaired. A repair also replays
// the changes left by a crash; if there is nothing else to do, it writes nothing: see `segno_replay`.
// `options` may be null.
int segno_repair(const char *image, const segno_check_options *options, segno_action action, void *context);

// Replays the changes that a crash left on a volume that is not open, as the next `segno_open` with
// `SEGNO_WRITABLE` would. `options` may be null.
int segno_replay(const char *image, const segno_check_options *options);

// Opens a directory for reading.
int segno_dir_open(segno_volume *volume, const char *name, segno_dir **dir);

// The next name, without `.` and `..`. The result is 1, and 0 at the end; after an error it is at the end.
int segno_dir_next(segno_dir *dir, segno_dirent *into);

// Closes a directory. Null is ignored.
int segno_dir_close(segno_dir *dir);

// The message of the last call of this thread that failed: the action, the path, and the reason. It is valid
// until the next call that fails, and empty if no call failed.
const char *segno_last_error(void);

// Opens a regular file; `how` combines `SEGNO_READ` and others. `mode` has the permission bits of a file that is created.
int segno_file_open(segno_volume *volume,
                    const char *name,
                    uint32_t how,
                    uint32_t mode,
                    segno_file **file);

// Closes a file. Written data is durable after `segno_fsync`, `segno_sync` or `segno_close`. Null is
// ignored.
int segno_file_close(segno_file *file);

// Reads from an offset; the result is the number of bytes, 0 at the end.
int64_t segno_pread(segno_file *file, void *into, size_t size, uint64_t offset);

// Writes at an offset, or at the end with `SEGNO_APPEND`; the result is the number of bytes, fewer than given if space ends
// midway.
int64_t segno_pwrite(segno_file *file,
                     const void *from,
                     size_t size,
                     uint64_t offset);

// Makes content and attributes durable, or with `data_only` the content alone.
int segno_fsync(segno_file *file, int data_only);

// Cuts the file, or extends it by a hole that reads as zeros.
int segno_ftruncate(segno_file *file, uint64_t size);

// Attributes of the file.
int segno_fstat(segno_file *file, segno_stat_t *into);

// Formats a volume with the defaults of mkfs.f2fs. With `bytes`, a sparse image file of that size is created, which must not
// exist; with 0 the file or block device must exist and be empty, unless `force` is not 0. `label` may be null.
int segno_format(const char *image,
                 uint64_t bytes,
                 const char *label,
                 int force);

// Builds an image of a directory, a tar archive or another image. The same input gives the same bytes, and whatever of it
// cannot be stored is an error. The file gets its name when it is complete. `options` and `report` may be null.
int segno_build(const char *source,
                const char *image,
                const segno_build_options *options,
                segno_build_report *report);

// Takes the tree out of an image, raw or Android sparse, into a directory that is new or empty, or into a new tar archive.
// `options` and `report` may be null.
int segno_extract(const char *image,
                  const char *target,
                  const segno_extract_options *options,
                  segno_extract_report *report);

// Creates a directory. It belongs to user and group 0, like everything that is created.
int segno_mkdir(segno_volume *volume, const char *name, uint32_t mode);

// Removes an empty directory.
int segno_rmdir(segno_volume *volume, const char *name);

// Removes a name of anything but a directory.
int segno_unlink(segno_volume *volume, const char *name);

// Renames a file or directory. An existing one of the new name is replaced atomically, even if the power is
// cut.
int segno_rename(segno_volume *volume, const char *from, const char *to);

// Gives a file another name.
int segno_link(segno_volume *volume, const char *original, const char *name);

// Creates a symbolic link.
int segno_symlink(segno_volume *volume, const char *target, const char *name);

// Reads the target of a symbolic link; the result is its length. The target is not followed by a NUL. With
// `size` 0 nothing is copied; a buffer that is too small is an error (`-ERANGE`).
int64_t segno_readlink(segno_volume *volume, const char *name, char *target, size_t size);

// The version of this interface. It grows when functions are added; a change that breaks callers changes the number in the
// library's name.
uint32_t segno_abi(void);

// Opens the volume in an image file (raw or Android sparse) or on a block device. `options` may be null.
int segno_open(const char *image, const segno_open_options *options, segno_volume **volume);

// Writes everything and unmounts. `volume` is invalid afterwards, also if that failed, with one exception: while files or
// directories are open, the result is `-EBUSY` and the volume stays open. Null is ignored.
int segno_close(segno_volume *volume);

// Makes everything durable that was done before this call.
int segno_sync(segno_volume *volume);

// Space and inode counts.
int segno_statfs(segno_volume *volume, segno_statfs_t *into);

// Reads an extended attribute; the result is its length. With `size` 0 nothing is copied; a buffer that is too small is an
// error (`-ERANGE`). This and the next three functions do not follow a symbolic link at the end of a path.
int64_t segno_getxattr(segno_volume *volume,
                       const char *name,
                       const char *attribute,
                       void *value,
                       size_t size);

// The names of all extended attributes, each followed by a NUL; the result is their length. `size` as for
// `segno_getxattr`.
int64_t segno_listxattr(segno_volume *volume, const char *name, char *names, size_t size);

// Sets an extended attribute.
int segno_setxattr(segno_volume *volume,
                   const char *name,
                   const char *attribute,
                   const void *value,
                   size_t size);

// Removes an extended attribute.
int segno_removexattr(segno_volume *volume, const char *name, const char *attribute);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* SEGNO_H */
