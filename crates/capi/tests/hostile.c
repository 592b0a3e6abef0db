/* Opens each image whose path comes on standard input, reads and changes everything, and answers "opened" or "refused". */
#include <segno.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAMES = 500, DEPTH = 12, LIST = 4096 };

static char buffer[256 << 10];

/* A failure has an errno and a message. */
static int64_t checked(int64_t result)
{
    if (result < 0 && (result < -4095 || strlen(segno_last_error()) < 4)) {
        fprintf(stderr, "result %lld, message \"%s\"\n", (long long)result, segno_last_error());
        abort();
    }
    return result;
}

static void visit(segno_volume *volume, const char *path)
{
    segno_stat_t found, again;
    segno_file *file;
    int64_t length = checked(segno_listxattr(volume, path, buffer, LIST)), at;
    char value[LIST];

    for (at = 0; at < length; at += (int64_t)strlen(buffer + at) + 1)
        checked(segno_getxattr(volume, path, buffer + at, value, sizeof value));
    if (checked(segno_stat(volume, path, 1, &found)) < 0)
        return;
    if ((found.mode & 0170000) == 0120000)
        checked(segno_readlink(volume, path, buffer, LIST));
    if ((found.mode & 0170000) != 0100000 || checked(segno_file_open(volume, path, SEGNO_READ, 0, &file)) < 0)
        return;
    checked(segno_fstat(file, &again));
    checked(segno_pread(file, buffer, sizeof buffer, 0));
    checked(segno_pread(file, buffer, sizeof buffer, found.size > 5000 ? found.size - 5000 : 0));
    checked(segno_file_close(file));
}

static void walk(segno_volume *volume, const char *path, int depth, int *names)
{
    segno_dir *dir;
    segno_dirent entry;
    char below[8192];

    visit(volume, path);
    if (depth == 0 || checked(segno_dir_open(volume, path, &dir)) < 0)
        return;
    while (checked(segno_dir_next(dir, &entry)) > 0 && (*names)-- > 0) {
        if (strlen(entry.name) != entry.name_len)
            abort();
        snprintf(below, sizeof below, "%s/%s", path, entry.name);
        if (entry.kind == 4 || entry.kind == 0)
            walk(volume, below, depth - 1, names);
        else
            visit(volume, below);
    }
    checked(segno_dir_close(dir));
}

static void change(segno_volume *volume)
{
    segno_dir *dir;
    segno_dirent entry;
    segno_file *file;
    segno_time now = {1700000000, 5, 0};
    char path[300], other[300];
    int number = 0;

    if (checked(segno_dir_open(volume, "/", &dir)) < 0)
        return;
    while (number++ < 12 && checked(segno_dir_next(dir, &entry)) > 0) {
        snprintf(path, sizeof path, "/%s", entry.name);
        snprintf(other, sizeof other, "/renamed-%d", number);
        checked(segno_chmod(volume, path, 0600));
        checked(segno_utimes(volume, path, now, now, 1));
        checked(segno_setxattr(volume, path, "user.new", "value", 5));
        checked(segno_truncate(volume, path, 100));
        checked(segno_link(volume, path, "/linked"));
        checked(segno_rename(volume, path, other));
        checked(number % 2 ? segno_unlink(volume, other) : segno_rmdir(volume, other));
    }
    checked(segno_dir_close(dir));
    checked(segno_mkdir(volume, "/new", 0755));
    if (checked(segno_file_open(volume, "/new/f", SEGNO_WRITE | SEGNO_CREATE, 0644, &file)) == 0) {
        checked(segno_pwrite(file, buffer, 20000, 12345));
        checked(segno_fsync(file, 0));
        checked(segno_ftruncate(file, 7));
        checked(segno_file_close(file));
    }
    checked(segno_sync(volume));
}

static int session(const char *image, uint32_t flags)
{
    segno_open_options options = {sizeof options, flags, 8 << 20, NULL, NULL};
    segno_volume *volume;
    segno_statfs_t space;
    int names = NAMES;

    if (checked(segno_open(image, &options, &volume)) < 0)
        return 0;
    checked(segno_statfs(volume, &space));
    walk(volume, "", DEPTH, &names);
    if (flags & SEGNO_WRITABLE)
        change(volume);
    checked(segno_close(volume));
    return 1;
}

static void count(void *context, int is_error, const char *text)
{
    *(int *)context += is_error + (text[0] != 0);
}

int main(void)
{
    segno_check_options plan = {sizeof plan, SEGNO_REPAIR_PLAN, NULL, NULL};
    char line[4096];

    while (fgets(line, sizeof line, stdin)) {
        int opened, findings = 0;
        line[strcspn(line, "\n")] = 0;
        checked(segno_check(line, count, &findings));
        checked(segno_check_replayed(line, NULL, count, &findings));
        checked(segno_repair(line, &plan, count, &findings));
        opened = session(line, SEGNO_SKIP_RECOVERY);
        opened |= session(line, SEGNO_WRITABLE);
        puts(opened ? "opened" : "refused");
        fflush(stdout);
    }
    return 0;
}
