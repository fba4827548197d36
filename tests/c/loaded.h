/* The library by dlopen, for the programs that load it by themselves: its path is in MCP_LIBRARY. */
#ifndef LOADED_H
#define LOADED_H

#include "check.h"

#include <dlfcn.h>

static void *library;

UNUSED static void load(void)
{
    const char *path = getenv("MCP_LIBRARY");
    CHECK(path != NULL);
    library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        FAIL("%s", dlerror());
}

UNUSED static void *symbol(const char *name)
{
    void *found = dlsym(library, name);
    if (!found)
        FAIL("%s", dlerror());
    return found;
}

UNUSED static void unload(void)
{
    CHECK(dlclose(library) == 0);
}

/* The library's functions under their own names. */
#define OF_LIBRARY(name) ((__typeof__(&name))(uintptr_t)symbol(#name))

UNUSED static mcp_client *connect_and_call(void)
{
    char settings[512];
    mcp_client *client = NULL;
    mcp_call *call = NULL;
    mcp_result *result = NULL;
    int length = snprintf(settings, sizeof settings, "{\"url\":\"%s\"}", server_url);
    EQUAL(MCP_OK, OF_LIBRARY(mcp_client_new)(settings, (size_t)length, &client));
    EQUAL(MCP_OK, OF_LIBRARY(mcp_client_open)(client));
    EQUAL(MCP_OK, OF_LIBRARY(mcp_tool_run)(client, "add", "{\"a\":1,\"b\":2}", 13, NULL, 0, PATIENCE_MS, &call));
    EQUAL(MCP_OK, OF_LIBRARY(mcp_call_result)(call, &result));
    CHECK(strchr(OF_LIBRARY(mcp_result_text)(result, MCP_RESULT_TEXT, NULL), '3') != NULL);
    EQUAL(MCP_OK, OF_LIBRARY(mcp_result_free)(result));
    EQUAL(MCP_OK, OF_LIBRARY(mcp_call_free)(call));
    return client;
}

UNUSED static void close_and_free(mcp_client *client)
{
    OF_LIBRARY(mcp_client_close)(client);
    EQUAL(MCP_OK, OF_LIBRARY(mcp_client_wait_closed)(client, PATIENCE_MS));
    EQUAL(MCP_OK, OF_LIBRARY(mcp_client_free)(client));
}

#endif
