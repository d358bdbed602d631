/* fake_python.c - a stand-in for Python 3.14, as `doctor --attach` meets it. It is built under the
 * name python3.14, and serves both sides, which find each other in the folder FAKE_PYTHON.
 *
 *   python3.14 train.py                      the process to enter: waits for a file `question`,
 *                                            has the real Python (FAKE_PYTHON_REAL) run the words
 *                                            of FAKE_PYTHON_PROGRAM and then the file it names;
 *                                            ends when there is a file `end`
 *   python3.14 -I -S -c CODE PID SCRIPT      who asks: writes that file; or, with
 *                                            FAKE_PYTHON_REFUSES, refuses in those words
 *
 * The CODE is what Python 3.14 would run; that it names sys.remote_exec is checked. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LOOK_US = 5000, MOST_PATH_BYTES = 4096 };

static const char *variable(const char *name)
{
    const char *value = getenv(name);
    return value != NULL ? value : "";
}

static void path_in(char path[MOST_PATH_BYTES], const char *name)
{
    snprintf(path, MOST_PATH_BYTES, "%s/%s", variable("FAKE_PYTHON"), name);
}

/* ---- who asks -------------------------------------------------------------------------------- */

static int ask(int argc, char **argv)
{
    char path[MOST_PATH_BYTES], part[MOST_PATH_BYTES];
    if (variable("FAKE_PYTHON_REFUSES")[0] != '\0') {
        fprintf(stderr, "Traceback (most recent call last):\n  File \"<string>\", line 1\n%s\n",
                variable("FAKE_PYTHON_REFUSES"));
        return 1;
    }
    if (argc != 7 || strcmp(argv[2], "-S") != 0 || strcmp(argv[3], "-c") != 0 ||
        strstr(argv[4], "sys.remote_exec(") == NULL || atol(argv[5]) <= 0) {
        fputs("not asked as expected\n", stderr);
        return 2;
    }
    path_in(path, "question");
    path_in(part, "question.part");
    FILE *file = fopen(part, "w");
    if (file == NULL || fputs(argv[6], file) < 0 || fclose(file) != 0 || rename(part, path) != 0)
        return 3;
    return 0;
}

/* ---- the process ----------------------------------------------------------------------------- */

static void run_file(const char *file)
{
    char code[2 * MOST_PATH_BYTES];
    const char *real = variable("FAKE_PYTHON_REAL");
    snprintf(code, sizeof code, "%s\nimport sys\nexec(open(sys.argv[1]).read())",
             variable("FAKE_PYTHON_PROGRAM"));
    pid_t child = fork();
    if (child == 0) {
        execl(real, real, "-c", code, file, (char *)NULL);
        _exit(127);
    }
    (void)waitpid(child, NULL, 0);
}

static void answer_question(void)
{
    char path[MOST_PATH_BYTES], answered[MOST_PATH_BYTES], file[MOST_PATH_BYTES];
    path_in(path, "question");
    FILE *question = fopen(path, "r");
    if (question == NULL)
        return;
    const size_t length = fread(file, 1, sizeof file - 1, question);
    file[length] = '\0';
    fclose(question);
    path_in(answered, "answered"); /* for the test to see */
    (void)rename(path, answered);
    run_file(file);
}

static int wait_for_questions(void)
{
    char end[MOST_PATH_BYTES], busy[MOST_PATH_BYTES], ready[MOST_PATH_BYTES];
    path_in(end, "end");
    path_in(busy, "busy"); /* as in C code: nothing is answered while it is there */
    path_in(ready, "ready");
    FILE *file = fopen(ready, "w");
    if (file == NULL || fclose(file) != 0)
        return 3;
    while (access(end, F_OK) != 0) {
        if (access(busy, F_OK) != 0)
            answer_question();
        usleep(LOOK_US);
    }
    return 0;
}

int main(int argc, char **argv)
{
    return argc > 1 && strcmp(argv[1], "-I") == 0 ? ask(argc, argv) : wait_for_questions();
}
