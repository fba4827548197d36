/* A handle that was freed is refused by every function, also when its place is taken again. */
#include "each_function.h"

PROGRAM
{
    struct world *first = world_make();
    void *stale[KINDS];
    memcpy(stale, first->of, sizeof stale);
    free_each(first->of, MCP_OK);
    int calls = refuse_handles(stale);
    CHECK(calls > 60);

    /* The same places, new handles: the old names stay dead, the new ones are alive. */
    struct world *second = world_make();
    for (int kind = 0; kind < KINDS; kind++)
        CHECK(second->of[kind] != stale[kind]);
    EQUAL(calls, refuse_handles(stale));
    check_usable(second->of[K_client]);
    free_each(second->of, MCP_OK);

    end_library();
    EQUAL(calls, refuse_handles(stale));
    EQUAL(1, counted(&first->destroyed));
    free(first);
    world_end(second);
}
