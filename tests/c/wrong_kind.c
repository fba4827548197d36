/* A live handle of another kind is refused by every function, and stays alive. */
#include "each_function.h"

PROGRAM
{
    struct world *world = world_make();
    for (int shift = 1; shift < KINDS; shift++) {
        void *wrong[KINDS];
        for (int kind = 0; kind < KINDS; kind++)
            wrong[kind] = world->of[(kind + shift) % KINDS];
        CHECK(refuse_handles(wrong) > 60);
    }
    check_usable(world->of[K_client]);
    free_each(world->of, MCP_OK);
    world_end(world);
}
