/* BR-48 b: a panic inside an exported function is caught there: a status, a text, and a library that goes on. */
#include "check.h"

mcp_status mcp_test_panic(void);

PROGRAM
{
    mcp_error *error = NULL;
    int64_t status = 0;
    for (int round = 0; round < 3; round++) {
        STATUS(MCP_E_PANIC, mcp_test_panic());
        STATUS(MCP_OK, mcp_last_error(&error));
        STATUS(MCP_OK, mcp_error_number(error, MCP_ERROR_STATUS, &status));
        EQUAL(MCP_E_PANIC, status);
        CHECK(strstr(mcp_error_text(error, MCP_ERROR_MESSAGE, NULL), "panic") != NULL);
        STATUS(MCP_OK, mcp_error_free(error));
    }
    mcp_client *client = new_client("");
    open_client(client);
    STATUS(MCP_E_PANIC, mcp_test_panic());
    check_usable(client);
    end_client(client);
    end_library();
}
