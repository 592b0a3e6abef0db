/* Every function once, and wrong arguments: `interface SCRATCH_IMAGE SUPER_IMAGE`. */
#include <segno.h>
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define NEED(condition) \
    do { \
        if (!(condition)) { \
            fprintf(stderr, "line %d: %s: %s\n", __LINE__, #condition, segno_last_error()); \
            exit(1); \
        } \
    } while (0)

static void files(segno_volume *volume)
{
    segno_file *file = NULL;
    segno_stat_t found;
    char into[100];

    NEED(segno_file_open(volume, "/f", SEGNO_READ, 0, &file) == -ENOENT);
    NEED(strstr(segno_last_error(), "/f"));
    NEED(segno_file_open(volume, "/f", SEGNO_READ | SEGNO_WRITE | SEGNO_CREATE_NEW, 0640, &file) == 0);
    NEED(segno_pwrite(file, "0123456789", 10, 5000) == 10);
    NEED(segno_pread(file, into, 100, 4998) == 12 && memcmp(into, "\0\0" "0123456789", 12) == 0);
    NEED(segno_pread(file, into, 100, 9999) == 0 && segno_pread(file, NULL, 0, 0) == 0);
    NEED(segno_pread(file, NULL, 1, 0) == -EFAULT && segno_pread(NULL, into, 1, 0) == -EFAULT);
    NEED(segno_pread(file, into, (size_t)-1, 0) == -EINVAL);
    NEED(segno_ftruncate(file, 5003) == 0 && segno_fsync(file, 0) == 0 && segno_fsync(file, 1) == 0);
    NEED(segno_fstat(file, &found) == 0 && found.size == 5003 && found.mode == 0100640 && found.nlink == 1);
    NEED(segno_fstat(file, NULL) == -EFAULT);
    NEED(segno_close(volume) == -EBUSY);
    NEED(segno_file_close(file) == 0 && segno_file_close(NULL) == 0);
    NEED(segno_file_open(volume, "/f", SEGNO_WRITE | SEGNO_CREATE_NEW, 0, &file) == -EEXIST);
    NEED(segno_file_open(volume, "/f", 0, 0, &file) == -EINVAL);
    NEED(segno_file_open(volume, "/f", 64, 0, &file) == -EINVAL);
    NEED(segno_file_open(volume, "/f", SEGNO_READ, 0, NULL) == -EFAULT);
    NEED(segno_file_open(volume, "/f", SEGNO_APPEND, 0, &file) == 0 && segno_pwrite(file, "x", 1, 0) == 1);
    NEED(segno_pread(file, into, 1, 0) == -EBADF && segno_file_close(file) == 0);
    NEED(segno_stat(volume, "f", 0, &found) == 0 && found.size == 5004);
    NEED(segno_truncate(volume, "/f", 3) == 0);
}

static void names(segno_volume *volume)
{
    segno_stat_t found;
    segno_dir *dir;
    segno_dirent entry;
    segno_time then = {-1, 999999999, 0};
    char into[100];
    int seen = 0;

    NEED(segno_mkdir(volume, "/d", 0700) == 0 && segno_mkdir(volume, "/d", 0700) == -EEXIST);
    NEED(segno_link(volume, "/f", "/d/second") == 0 && segno_rename(volume, "/d/second", "/d/caf\xe9") == 0);
    NEED(segno_symlink(volume, "d/caf\xe9", "/l") == 0);
    NEED(segno_readlink(volume, "/l", NULL, 0) == 6 && segno_readlink(volume, "/l", into, 100) == 6);
    NEED(memcmp(into, "d/caf\xe9", 6) == 0 && segno_readlink(volume, "/l", into, 5) == -ERANGE);
    NEED(segno_stat(volume, "/l", 0, &found) == 0 && found.nlink == 2 && found.size == 3);
    NEED(segno_stat(volume, "/l", 1, &found) == 0 && (found.mode & 0170000) == 0120000);
    NEED(segno_chmod(volume, "/f", 0400) == 0 && segno_chown(volume, "/f", 7, 8, 0) == 0);
    NEED(segno_utimes(volume, "/f", then, then, 0) == 0 && segno_stat(volume, "/f", 0, &found) == 0);
    NEED(found.mode == 0100400 && found.uid == 7 && found.gid == 8);
    NEED(found.mtime.sec == -1 && found.atime.nsec == 999999999);
    NEED(segno_setxattr(volume, "/f", "user.a", "value", 5) == 0);
    NEED(segno_getxattr(volume, "/f", "user.a", into, 100) == 5 && memcmp(into, "value", 5) == 0);
    NEED(segno_listxattr(volume, "/f", into, 100) == 7 && strcmp(into, "user.a") == 0);
    NEED(segno_removexattr(volume, "/f", "user.a") == 0);
    NEED(segno_getxattr(volume, "/f", "user.a", into, 100) == -ENODATA);
    NEED(segno_dir_open(volume, "/f", &dir) == -ENOTDIR && segno_dir_open(volume, "/", &dir) == 0);
    while (segno_dir_next(dir, &entry) == 1) {
        seen += entry.name_len == 1 && strlen(entry.name) == 1;
        NEED(entry.kind == (entry.name[0] == 'd' ? 4 : entry.name[0] == 'l' ? 10 : 8));
    }
    NEED(seen == 3 && segno_dir_next(dir, &entry) == 0 && segno_dir_next(NULL, &entry) == -EFAULT);
    NEED(segno_close(volume) == -EBUSY && segno_dir_close(dir) == 0 && segno_dir_close(NULL) == 0);
    NEED(segno_unlink(volume, "/d") == -EISDIR && segno_rmdir(volume, "/d") == -ENOTEMPTY);
    NEED(segno_unlink(volume, "/d/caf\xe9") == 0 && segno_unlink(volume, "/l") == 0 && segno_rmdir(volume, "/d") == 0);
    NEED(segno_mkdir(volume, NULL, 0) == -EFAULT && segno_mkdir(NULL, "/x", 0) == -EFAULT);
}

static void finding(void *context, int is_error, const char *text)
{
    (void)is_error;
    NEED(strlen(text) > 10);
    ++*(int *)context;
}

/* The path of something next to the image. */
static char *beside(const char *image, const char *end)
{
    static char paths[16][4096];
    static int next;
    char *path = paths[next++ % 16];

    snprintf(path, sizeof paths[0], "%s.%s", image, end);
    return path;
}

static void copy(const char *from, const char *to)
{
    FILE *in = fopen(from, "rb"), *out = fopen(to, "wb");
    static char buffer[1 << 16];
    size_t n;

    NEED(in && out);
    while ((n = fread(buffer, 1, sizeof buffer, in)) > 0)
        NEED(fwrite(buffer, 1, n, out) == n);
    NEED(fclose(in) == 0 && fclose(out) == 0);
}

static int same(const char *one, const char *two)
{
    FILE *a = fopen(one, "rb"), *b = fopen(two, "rb");
    int x, y;

    NEED(a && b);
    do {
        x = getc(a);
        y = getc(b);
    } while (x == y && x != EOF);
    fclose(a);
    fclose(b);
    return x == y;
}

static void grave(void *context, int is_grave, const char *text)
{
    NEED(strlen(text) > 10);
    *(int *)context += is_grave;
}

/* Of a copy that a power cut left: what is to be replayed, in the volume or in a journal. */
static void replayed(const char *cut, char *journal)
{
    segno_check_options options = {sizeof options, SEGNO_CHECK_QUICK | SEGNO_CHECK_DATA, journal, NULL};
    char *before = beside(cut, "unreplayed");
    int found = 0;

    copy(cut, before);
    NEED(segno_check_replayed(cut, &options, grave, &found) == SEGNO_FOUND_REPLAY && found == 0);
    NEED(segno_repair(cut, &options, grave, &found) == 0 && found == 0 && same(cut, before));
    if (journal) {
        NEED(segno_check_replayed(cut, NULL, grave, &found) == SEGNO_FOUND_ERRORS && found == 1);
        NEED(segno_repair(cut, NULL, grave, &found) == -EUCLEAN && strstr(segno_last_error(), "journal"));
        NEED(segno_replay(cut, NULL) < 0 && found == 1 && same(cut, before));
    }
    NEED(segno_replay(cut, &options) == 0 && segno_check_replayed(cut, NULL, NULL, NULL) == 0 && !same(cut, before));
}

/* The links of an inode are counted wrongly. */
static void repaired(segno_volume *volume, const char *scratch)
{
    segno_check_options options = {sizeof options, SEGNO_REPAIR_PLAN, NULL, NULL};
    char *bad = beside(scratch, "bad"), *before = beside(scratch, "bad-before");
    unsigned char block[4096];
    segno_volume *whole;
    segno_stat_t found;
    int errors = 0;
    FILE *image;

    NEED(segno_mkdir(volume, "/links", 0700) == 0 && segno_stat(volume, "/links", 0, &found) == 0 && segno_sync(volume) == 0);
    copy(scratch, bad);
    NEED((image = fopen(bad, "r+b")) != NULL);
    while (fread(block, sizeof block, 1, image) == 1) {
        uint32_t ids[2];
        memcpy(ids, block + 4072, sizeof ids);
        if (ids[0] != found.ino || ids[1] != found.ino)
            continue;
        block[12] = 9;
        NEED(fseek(image, -(long)sizeof block, SEEK_CUR) == 0 && fwrite(block, sizeof block, 1, image) == 1);
        NEED(fseek(image, 0, SEEK_CUR) == 0);
    }
    NEED(fclose(image) == 0);
    copy(bad, before);
    NEED(segno_check_replayed(bad, NULL, grave, &errors) == (SEGNO_FOUND_ERRORS | SEGNO_FOUND_REPAIRABLE) && errors > 0);
    /* Nothing is lost. */
    errors = 0;
    NEED(segno_repair(bad, &options, grave, &errors) == 1 && errors == 0 && same(bad, before));
    NEED(segno_repair(bad, NULL, NULL, NULL) == 1 && segno_repair(bad, NULL, NULL, NULL) == 0);
    NEED(segno_check_replayed(bad, NULL, NULL, NULL) == 0 && segno_open(bad, NULL, &whole) == 0);
    NEED(segno_stat(whole, "/links", 0, &found) == 0 && found.nlink == 2 && segno_close(whole) == 0);
    options.flags = 64;
    NEED(segno_repair(bad, &options, NULL, NULL) == -EINVAL && strstr(segno_last_error(), "0x40"));
    options.size = 4;
    NEED(segno_replay(bad, &options) == -EINVAL && segno_replay(NULL, NULL) == -EFAULT);
    NEED(segno_check_replayed(beside(scratch, "none"), NULL, NULL, NULL) == -ENOENT);
    NEED(segno_rmdir(volume, "/links") == 0);
}

/* A copy of the image while the volume is open is what a power cut leaves. */
static void crash(segno_volume *volume, const char *scratch)
{
    segno_open_options options = {sizeof options, SEGNO_SKIP_RECOVERY, 0, NULL, NULL};
    char *cut = beside(scratch, "cut"), *before = beside(scratch, "before"), into[8];
    segno_volume *shown;
    segno_file *file;

    NEED(segno_sync(volume) == 0);
    NEED(segno_file_open(volume, "/fsynced", SEGNO_WRITE | SEGNO_CREATE_NEW, 0600, &file) == 0);
    NEED(segno_pwrite(file, "kept", 4, 0) == 4 && segno_fsync(file, 0) == 0 && segno_file_close(file) == 0);
    copy(scratch, cut);
    copy(cut, before);
    NEED(segno_open(cut, NULL, &shown) == 0 && segno_file_open(shown, "/fsynced", SEGNO_READ, 0, &file) == 0);
    NEED(segno_pread(file, into, 8, 0) == 4 && memcmp(into, "kept", 4) == 0 && segno_file_close(file) == 0);
    NEED(segno_unlink(shown, "/fsynced") == -EROFS && segno_close(shown) == 0 && same(cut, before));
    NEED(segno_open(cut, &options, &shown) == 0);
    NEED(segno_file_open(shown, "/fsynced", SEGNO_READ, 0, &file) == -ENOENT && segno_close(shown) == 0);
    replayed(cut, NULL);
    NEED(segno_unlink(volume, "/fsynced") == 0);
}

/* A volume whose last mount had an external journal is opened only with it. */
static void external_journal(const char *scratch)
{
    segno_open_options options = {sizeof options, SEGNO_WRITABLE, 0, NULL, NULL};
    segno_extract_options lists = {sizeof lists, 0, NULL, NULL, NULL, NULL, 0, 0};
    segno_build_options built;
    char *image = beside(scratch, "journaled"), *side = beside(scratch, "side");
    char *cut = beside(scratch, "journaled-cut"), *side_cut = beside(scratch, "side-cut");
    char *before = beside(scratch, "journaled-before"), *to = beside(scratch, "journaled-tree");
    segno_volume *volume, *shown;
    segno_stat_t found;
    segno_file *file;
    FILE *zeros;

    NEED(segno_format(image, 64 << 20, NULL, 0) == 0 && (zeros = fopen(side, "w")));
    NEED(ftruncate(fileno(zeros), 8 << 20) == 0 && fclose(zeros) == 0);
    options.journal = side;
    NEED(segno_open(image, &options, &volume) == 0);
    NEED(segno_file_open(volume, "/fsynced", SEGNO_WRITE | SEGNO_CREATE_NEW, 0600, &file) == 0);
    NEED(segno_pwrite(file, "kept", 4, 0) == 4 && segno_fsync(file, 0) == 0 && segno_file_close(file) == 0);
    copy(image, cut);
    copy(side, side_cut);
    copy(cut, before);
    NEED(segno_close(volume) == 0 && segno_open(image, NULL, &volume) == 0 && segno_close(volume) == 0);
    NEED(segno_open(cut, NULL, &shown) == -ENODEV && strstr(segno_last_error(), "external journal"));
    /* As a caller of an earlier version, whose options end before the journal. */
    options.size = offsetof(segno_open_options, journal);
    NEED(segno_open(cut, &options, &shown) == -ENODEV);
    options.size = sizeof options;
    options.flags = 0;
    options.journal = side_cut;
    NEED(segno_open(cut, &options, &shown) == 0 && segno_stat(shown, "/fsynced", 0, &found) == 0);
    NEED(found.size == 4 && segno_close(shown) == 0 && same(cut, before));
    memset(&built, 0, sizeof built);
    built.size = sizeof built;
    NEED(segno_extract(cut, to, &lists, NULL) == -ENODEV && segno_build(cut, to, &built, NULL) == -ENODEV);
    lists.journal = built.journal = side_cut;
    NEED(segno_extract(cut, to, &lists, NULL) == 0);
    NEED(segno_build(cut, beside(scratch, "journaled-built"), &built, NULL) == 0 && same(cut, before));
    replayed(cut, side_cut);
}

/* Makes two devices of an image: the second has the last segments. Both paths are recorded, as a format of two devices does. */
static void split(const char *image, const char *first, const char *second)
{
    enum { TAIL = 4, SEGMENT_COUNT = 1024 + 48, DEVICES = 1024 + 2201 };
    static unsigned char all[64 << 20];
    FILE *file = fopen(image, "rb");
    uint32_t segments, tail = TAIL, copies;
    size_t start;

    NEED(file && fread(all, 1, sizeof all, file) == sizeof all && fclose(file) == 0);
    memcpy(&segments, all + SEGMENT_COUNT, 4);
    /* One segment before the first has the superblocks. */
    start = ((size_t)segments + 1 - TAIL) << 21;
    segments -= TAIL;
    for (copies = 0; copies < 2; ++copies) {
        unsigned char *table = all + copies * 4096 + DEVICES;

        snprintf((char *)table, 64, "%s", first);
        memcpy(table + 64, &segments, 4);
        snprintf((char *)table + 68, 64, "%s", second);
        memcpy(table + 132, &tail, 4);
    }
    NEED((file = fopen(first, "wb")) && fwrite(all, 1, start, file) == start && fclose(file) == 0);
    NEED((file = fopen(second, "wb")) && fwrite(all + start, 1, TAIL << 21, file) == TAIL << 21 && fclose(file) == 0);
}

/* No path is opened because an image records it. */
static void several_devices(const char *scratch)
{
    char *image = beside(scratch, "one"), *first = beside(scratch, "first"), *second = beside(scratch, "second");
    char *before = beside(scratch, "second-before"), *to = beside(scratch, "several-tree");
    const char *further[] = {NULL, NULL}, *all[] = {NULL, NULL, NULL};
    segno_open_options options = {sizeof options, 0, 0, NULL, NULL};
    segno_extract_options lists = {sizeof lists, 0, NULL, NULL, NULL, NULL, 0, 0};
    segno_check_options checked = {sizeof checked, 0, NULL, NULL};
    segno_build_options built;
    segno_volume *volume;
    segno_stat_t found;

    memset(&built, 0, sizeof built);
    built.size = sizeof built;
    further[0] = all[1] = second;
    all[0] = first;
    NEED(segno_format(image, 64 << 20, NULL, 0) == 0);
    split(image, first, second);
    copy(second, before);
    NEED(segno_open(first, NULL, &volume) == -EINVAL && strstr(segno_last_error(), second));
    NEED(segno_check(first, NULL, NULL) == -EINVAL && strstr(segno_last_error(), second));
    NEED(segno_extract(first, to, &lists, NULL) == -EINVAL && strstr(segno_last_error(), second));
    NEED(segno_build(first, beside(scratch, "several-built"), &built, NULL) == -EINVAL);
    NEED(segno_check_replayed(first, &checked, NULL, NULL) == -EINVAL && segno_replay(first, &checked) == -EINVAL);
    options.devices = lists.devices = built.devices = checked.devices = further;
    NEED(segno_check_replayed(first, &checked, NULL, NULL) == 0 && segno_repair(first, &checked, NULL, NULL) == 0);
    NEED(segno_open(first, &options, &volume) == 0 && segno_stat(volume, "/", 0, &found) == 0);
    NEED(segno_close(volume) == 0 && segno_extract(first, to, &lists, NULL) == 0);
    NEED(segno_build(first, beside(scratch, "several-built"), &built, NULL) == 0);
    NEED(segno_check_several(all, NULL, NULL) == 0 && segno_check_several(NULL, NULL, NULL) == -EINVAL);
    /* As a caller of an earlier version, whose options end before the devices. */
    options.size = offsetof(segno_open_options, devices);
    NEED(segno_open(first, &options, &volume) == -EINVAL);
    NEED(segno_format(first, 0, NULL, 1) == 0 && segno_check(first, NULL, NULL) == 0 && same(second, before));
}

/* A program that runs as its owner comes out of an image only on request. */
static void rights(const char *scratch)
{
    static const uint32_t preserve[2] = {0, SEGNO_PRESERVE_SETID};
    segno_extract_options options = {sizeof options, 0, NULL, NULL, NULL, NULL, 0, 0};
    segno_extract_report taken;
    struct stat host;
    char *dir = beside(scratch, "rights"), *image = beside(scratch, "setid");
    char name[4200];
    FILE *file;
    int i;

    snprintf(name, sizeof name, "%s/file", dir);
    NEED(mkdir(dir, 0755) == 0 && (file = fopen(name, "w")) && fclose(file) == 0);
    NEED(chmod(name, 04755) == 0 && segno_build(dir, image, NULL, NULL) == 0);
    for (i = 0; i < 2; ++i) {
        char *to = beside(scratch, i ? "with" : "without");

        options.preserve = preserve[i];
        NEED(segno_extract(image, to, &options, &taken) == 0 && taken.left_out == (uint64_t)!i);
        snprintf(name, sizeof name, "%s/file", to);
        NEED(stat(name, &host) == 0 && (host.st_mode & 07777) == (i ? 04755u : 0755u));
    }
    options.preserve = 16;
    NEED(segno_extract(image, beside(scratch, "none"), &options, NULL) == -EINVAL);
}

static void trees(const char *scratch)
{
    static const uint8_t uuid[16] = {1, 2, 3, 4, 5, 6, 0x47, 8, 0x89, 10, 11, 12, 13, 14, 15, 16};
    uint64_t epoch = 1700000000;
    segno_build_options options;
    segno_build_report built;
    segno_extract_options lists = {sizeof lists, 0, NULL, NULL, NULL, NULL, 0, 0};
    segno_extract_report taken;
    segno_stat_t found;
    segno_volume *volume;
    char *dir = beside(scratch, "tree"), *image = beside(scratch, "built"), *tar = beside(scratch, "tar");
    char *again = beside(scratch, "again"), *back = beside(scratch, "back"), *meta = beside(scratch, "manifest");
    char name[4200];
    FILE *file;
    int i;

    snprintf(name, sizeof name, "%s/file", dir);
    NEED(mkdir(dir, 0755) == 0 && (file = fopen(name, "w")));
    for (i = 0; i < 50000; ++i)
        fputs("content ", file);
    NEED(fclose(file) == 0);
    memset(&options, 0, sizeof options);
    options.size = sizeof options;
    options.flags = SEGNO_BUILD_READ_ONLY | SEGNO_BUILD_ROOT_OWNED;
    options.label = "built";
    options.uuid = uuid;
    options.time = &epoch;
    options.compress = "lz4:9";
    options.log_cluster = 4;
    NEED(segno_build(dir, image, &options, &built) == 0 && memcmp(built.uuid, uuid, 16) == 0);
    NEED(built.files == 2 && built.content_bytes == 400000 && built.compressed_files == 1 && built.saved_bytes > 0);
    NEED(segno_check(image, NULL, NULL) == 0 && segno_open(image, NULL, &volume) == 0);
    NEED(segno_stat(volume, "/file", 0, &found) == 0 && found.mtime.sec == 1700000000 && found.uid == 0);
    NEED(segno_close(volume) == 0);
    NEED(segno_build(dir, image, &options, NULL) == -EEXIST);
    /* The archive has what the image has. */
    lists.flags = SEGNO_EXTRACT_TAR;
    NEED(segno_extract(image, tar, &lists, NULL) == 0 && segno_extract(image, tar, &lists, NULL) == -EEXIST);
    NEED(segno_build(tar, again, &options, NULL) == 0 && same(image, again));
    /* And so has the directory with the manifest. */
    lists.flags = 0;
    lists.manifest = meta;
    NEED(segno_extract(image, back, &lists, &taken) == 0 && taken.files == 2 && taken.bytes == 400000);
    NEED(taken.renamed == 0 && taken.left_out == 0);
    options.flags = SEGNO_BUILD_READ_ONLY | SEGNO_BUILD_FORCE;
    options.time = NULL;
    options.source_date_epoch = &epoch;
    options.manifest = meta;
    NEED(segno_build(back, again, &options, NULL) == 0 && same(image, again));
    NEED(segno_extract(image, back, NULL, NULL) < 0);
    lists.path = "/file";
    NEED(segno_extract(image, beside(scratch, "part"), &lists, NULL) == -EINVAL);
    lists.size = 7;
    NEED(segno_extract(image, back, &lists, NULL) == -EINVAL);
    NEED(segno_extract(NULL, back, NULL, NULL) == -EFAULT && segno_extract(image, NULL, NULL, NULL) == -EFAULT);
    /* Refused options, and a tree that does not fit, which leaves no file. */
    NEED(segno_build(NULL, again, NULL, NULL) == -EFAULT && segno_build(dir, NULL, NULL, NULL) == -EFAULT);
    options.compress = "brotli";
    NEED(segno_build(dir, again, &options, NULL) == -EINVAL && strstr(segno_last_error(), "brotli"));
    options.compress = NULL;
    options.flags = 64;
    NEED(segno_build(dir, again, &options, NULL) == -EINVAL);
    options.flags = SEGNO_BUILD_SPARSE;
    options.manifest = NULL;
    options.image_bytes = 8 << 20;
    NEED(segno_build(dir, beside(scratch, "small"), &options, NULL) < 0 && fopen(beside(scratch, "small"), "r") == NULL);
    options.image_bytes = 0;
    NEED(segno_build(dir, beside(scratch, "sparse"), &options, &built) == 0 && built.image_bytes >= 52 << 20);
    NEED(segno_check(beside(scratch, "sparse"), NULL, NULL) == 0);
    options.size = 8;
    NEED(segno_build(dir, again, &options, NULL) == -EINVAL);
}

static void superblocks(const char *path, int log_blocksize)
{
    FILE *image = fopen(path, "r+b");

    NEED(image != NULL);
    NEED(fseek(image, 1024 + 16, SEEK_SET) == 0 && putc(log_blocksize, image) == log_blocksize);
    NEED(fseek(image, 4096 + 1024 + 16, SEEK_SET) == 0 && putc(log_blocksize, image) == log_blocksize);
    NEED(fclose(image) == 0);
}

/* The volume of `example` in a partition of an Android super image. */
static void part_of_super(const char *image)
{
    segno_open_options options = {sizeof options, SEGNO_WRITABLE, 0, NULL, NULL};
    segno_volume *volume;
    segno_file *file;
    char part[4096], into[100];

    NEED(segno_open(image, NULL, &volume) == -EUCLEAN && strstr(segno_last_error(), "`segno find"));
    snprintf(part, sizeof part, "%s#odm", image);
    NEED(segno_open(part, NULL, &volume) == -EINVAL && strstr(segno_last_error(), "it has vendor_a, vendor_b"));
    snprintf(part, sizeof part, "%s#vendor", image);
    NEED(segno_open(part, NULL, &volume) == 0);
    NEED(segno_file_open(volume, "/hello", SEGNO_READ, 0, &file) == 0);
    NEED(segno_pread(file, into, sizeof into, 0) == 6 && memcmp(into, "hello\n", 6) == 0);
    NEED(segno_file_close(file) == 0 && segno_close(volume) == 0 && segno_check(part, NULL, NULL) == 0);
    NEED(segno_open(part, &options, &volume) == 0);
    NEED(segno_file_open(volume, "/new", SEGNO_WRITE | SEGNO_CREATE_NEW, 0644, &file) == 0);
    NEED(segno_pwrite(file, "new", 3, 0) == 3 && segno_file_close(file) == 0 && segno_close(volume) == 0);
    NEED(segno_check(part, NULL, NULL) == 0);
}

int main(int argc, char **argv)
{
    segno_open_options options = {sizeof options, SEGNO_WRITABLE, 16 << 20, NULL, NULL};
    segno_volume *volume, *other;
    segno_statfs_t space;
    int found = 0;
    FILE *image;

    NEED(argc == 3 && segno_abi() == 3 && segno_last_error()[0] == 0);
    NEED(segno_open(argv[1], NULL, &volume) == -ENOENT && strstr(segno_last_error(), argv[1]));
    NEED(segno_format(argv[1], 64 << 20, "Fotos \xc3\xa4", 0) == 0);
    NEED(segno_format(argv[1], 64 << 20, NULL, 0) == -EEXIST && segno_format(argv[1], 0, NULL, 0) == -EEXIST);
    NEED(segno_format(argv[1], 0, "\xff", 1) == -EINVAL && segno_format(argv[1], 0, NULL, 1) == 0);
    NEED(segno_open(argv[1], &options, NULL) == -EFAULT && segno_open(NULL, NULL, &volume) == -EFAULT);
    options.size = 4;
    NEED(segno_open(argv[1], &options, &volume) == -EINVAL);
    options.size = sizeof options;
    options.flags = 64;
    NEED(segno_open(argv[1], &options, &volume) == -EINVAL);
    options.flags = SEGNO_WRITABLE;
    NEED(segno_open(argv[1], &options, &volume) == 0);
    NEED(segno_open(argv[1], NULL, &other) == -EBUSY);
    NEED(segno_statfs(volume, &space) == 0 && space.block_size == 4096 && space.blocks_free > 1000);
    trees(argv[1]);
    rights(argv[1]);
    external_journal(argv[1]);
    several_devices(argv[1]);
    crash(volume, argv[1]);
    repaired(volume, argv[1]);
    part_of_super(argv[2]);
    files(volume);
    names(volume);
    NEED(segno_sync(volume) == 0 && segno_close(volume) == 0 && segno_close(NULL) == 0);
    NEED(segno_check(argv[1], finding, &found) == 0 && found == 0);
    NEED(segno_open(argv[1], NULL, &volume) == 0 && segno_open(argv[1], NULL, &other) == 0);
    NEED(segno_mkdir(volume, "/no", 0755) == -EROFS && segno_close(other) == 0 && segno_close(volume) == 0);
    /* Blocks of 16 KiB, in both superblocks, and back. */
    superblocks(argv[1], 14);
    NEED(segno_open(argv[1], NULL, &volume) == -EOPNOTSUPP && strstr(segno_last_error(), "log_blocksize 14"));
    NEED(segno_check(argv[1], NULL, NULL) == -EOPNOTSUPP);
    superblocks(argv[1], 12);
    NEED(segno_check(argv[1], NULL, NULL) == 0);
    /* Both superblocks stay, the checkpoints go. */
    NEED((image = fopen(argv[1], "r+b")) != NULL && fseek(image, 512 * 4096, SEEK_SET) == 0);
    for (found = 0; found < 1024 * 4096; ++found)
        putc(0, image);
    NEED(fclose(image) == 0);
    found = 0;
    NEED(segno_open(argv[1], NULL, &volume) == -EUCLEAN);
    NEED(segno_check(argv[1], finding, &found) == 1 && found > 0 && segno_check(argv[1], NULL, NULL) == 1);
    return 0;
}
