/* Makes an image, writes a file, lists the root directory: `example IMAGE`. */
#include <segno.h>
#include <stdio.h>
#include <string.h>

static int failed(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, segno_last_error());
    return 1;
}

int main(int argc, char **argv)
{
    segno_open_options options = {sizeof options, SEGNO_WRITABLE, 0, NULL, NULL};
    segno_volume *volume = NULL;
    segno_file *file = NULL;
    segno_dir *dir = NULL;
    segno_dirent entry;
    const char text[] = "hello\n";
    int more;

    if (argc != 2)
        return fprintf(stderr, "usage: %s IMAGE\n", argv[0]), 2;
    if (segno_format(argv[1], 64 << 20, "example", 0) < 0)
        return failed("format");
    if (segno_open(argv[1], &options, &volume) < 0)
        return failed("open");
    if (segno_file_open(volume, "/hello", SEGNO_WRITE | SEGNO_CREATE, 0644, &file) < 0)
        return failed("create");
    if (segno_pwrite(file, text, strlen(text), 0) < 0 || segno_file_close(file) < 0)
        return failed("write");
    if (segno_dir_open(volume, "/", &dir) < 0)
        return failed("list");
    while ((more = segno_dir_next(dir, &entry)) > 0)
        printf("%s\n", entry.name);
    if (more < 0 || segno_dir_close(dir) < 0 || segno_close(volume) < 0)
        return failed("list or close");
    return 0;
}
