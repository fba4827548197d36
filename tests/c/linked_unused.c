/* A program that is linked with the library and never uses it has no thread and no file more than before. */
#include "check.h"

#include <fcntl.h>

PROGRAM
{
    EQUAL(1, threads_now());
    int next = open("/dev/null", O_RDONLY);
    EQUAL(3, next);
    /* Settings alone start nothing either. */
    mcp_client *client = new_client("");
    EQUAL(1, threads_now());
    int after = open("/dev/null", O_RDONLY);
    EQUAL(4, after);
    (void)client;
}
