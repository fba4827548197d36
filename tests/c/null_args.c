/* Every function of the header: NULL handles, NULL and invalid texts, absurd lengths, NULL outputs, odd numbers
 * (BR-48 a). The calls are generated from the header, so that none is forgotten. */
#include "each_function.h"

PROGRAM
{
    void *none[KINDS] = {0};
    int calls = refuse_handles(none);
    free_each(none, MCP_OK);
    CHECK(calls > 60);

    /* Values that never were handles. */
    static const uintptr_t made_up[] = {1, 7, 0xdeadbeef, UINTPTR_MAX, UINTPTR_MAX / 2, (uintptr_t)1 << 56};
    for (size_t i = 0; i < sizeof made_up / sizeof *made_up; i++) {
        void *wild[KINDS];
        for (int kind = 0; kind < KINDS; kind++)
            wild[kind] = (void *)made_up[i];
        EQUAL(calls, refuse_handles(wild));
    }
    void *outside = malloc(64);
    for (int kind = 0; kind < KINDS; kind++)
        none[kind] = outside;
    EQUAL(calls, refuse_handles(none));
    free(outside);

    struct world *world = world_make();
    CHECK(refuse_arguments(world->of) > 100);

    /* A length of 0 is no text, whatever the pointer says. */
    mcp_call *call = NULL;
    STATUS(MCP_OK, mcp_tool_run(world->of[K_client], "echo", "garbage", 0, "garbage", 0, PATIENCE_MS, &call));
    STATUS(MCP_OK, mcp_call_free(call));
    mcp_client *client = NULL;
    STATUS(MCP_E_ARGUMENT, mcp_client_new("{}", 0, &client));

    /* Each refusal has a text, and the next call clears it. */
    mcp_error *error = NULL;
    STATUS(MCP_E_UTF8, mcp_client_new("{\"\xff", 3, &client));
    STATUS(MCP_OK, mcp_last_error(&error));
    const char *text = mcp_error_text(error, MCP_ERROR_MESSAGE, NULL);
    CHECK(text != NULL && strstr(text, "UTF-8") != NULL);
    STATUS(MCP_OK, mcp_error_free(error));
    STATUS(MCP_S_NONE, mcp_last_error(&error));
    CHECK(error == NULL);

    check_usable(world->of[K_client]);
    free_each(world->of, MCP_OK);
    world_end(world);
}
