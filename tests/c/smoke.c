/* The everyday path: settings, opening, facts, calls that wait and calls that do not, readers, the end. */
#include "check.h"

static counter done = COUNTER, destroyed = COUNTER;

static void on_done(mcp_event *event, void *user)
{
    mcp_call *call = NULL;
    mcp_result *result = NULL;
    int64_t id = 0, status = 7;
    CHECK(user == &done);
    EQUAL(MCP_EVENT_CALL_DONE, mcp_event_kind(event));
    STATUS(MCP_OK, mcp_event_call(event, &call));
    STATUS(MCP_OK, mcp_event_number(event, MCP_EVENT_NUMBER_CALL_ID, &id));
    STATUS(MCP_OK, mcp_event_number(event, MCP_EVENT_NUMBER_STATUS, &status));
    EQUAL(MCP_OK, status);
    EQUAL(id, mcp_call_id(call));
    STATUS(MCP_OK, mcp_call_result(call, &result));
    CHECK(strstr(mcp_result_text(result, MCP_RESULT_JSON, NULL), "\"content\"") != NULL);
    mcp_result_free(result);
    mcp_call_free(call);
    count(user);
}

PROGRAM
{
    size_t length = 0;
    EQUAL(MCP_ABI_VERSION, mcp_abi_version());
    CHECK(strlen(mcp_version()) >= 5);
    CHECK(strcmp(mcp_status_name(MCP_E_HANDLE), "MCP_E_HANDLE") == 0);
    CHECK(strcmp(mcp_status_name(12345), "MCP_UNKNOWN") == 0);

    mcp_client *client = new_client("");
    EQUAL(MCP_STATE_NEW, mcp_client_state(client));
    STATUS(MCP_OK, mcp_client_on(client, MCP_EVENT_CALL_DONE, on_done, &done, NULL));
    STATUS(MCP_OK, mcp_client_on(client, MCP_EVENT_ANY, NULL, &destroyed, count_destroyed));
    open_client(client);
    EQUAL(MCP_STATE_READY, mcp_client_state(client));

    mcp_server *server = NULL;
    STATUS(MCP_OK, mcp_client_server(client, &server));
    CHECK(strcmp(mcp_server_text(server, MCP_SERVER_ERA, NULL), "modern") == 0);
    CHECK(strcmp(mcp_server_text(server, MCP_SERVER_VERSION, &length), "2026-07-28") == 0);
    EQUAL(10, length);
    STATUS(MCP_OK, mcp_server_free(server));

    mcp_text *tools = NULL;
    STATUS(MCP_OK, mcp_tool_list(client, PATIENCE_MS, &tools));
    CHECK(strstr(mcp_text_get(tools, &length), "\"slow_job\"") != NULL);
    EQUAL(strlen(mcp_text_get(tools, NULL)), length);
    STATUS(MCP_OK, mcp_text_free(tools));

    check_usable(client);

    mcp_call *call = start_tool(client, "echo", "{\"greeting\":\"hello\"}");
    CHECK(mcp_call_id(call) > 0);
    STATUS(MCP_OK, mcp_call_wait(call, PATIENCE_MS));
    AWAIT(&done, 1);
    STATUS(MCP_OK, mcp_call_free(call));

    mcp_result *result = NULL;
    STATUS(MCP_OK, mcp_tool_run(client, "binary", NULL, 0, NULL, 0, PATIENCE_MS, &call));
    STATUS(MCP_OK, mcp_call_result(call, &result));
    int blocks = mcp_result_block_count(result), images = 0;
    CHECK(blocks >= 4);
    for (int i = 0; i < blocks; i++) {
        CHECK(mcp_result_block_json(result, i, NULL) != NULL);
        if (mcp_result_block_kind(result, i) == MCP_BLOCK_IMAGE) {
            const uint8_t *bytes = mcp_result_block_bytes(result, i, &length);
            CHECK(bytes != NULL && length > 0);
            CHECK(bytes == mcp_result_block_bytes(result, i, NULL));
            images++;
        }
    }
    CHECK(images > 0);
    EQUAL(MCP_E_ARGUMENT, mcp_result_block_kind(result, blocks));
    EQUAL(MCP_E_ARGUMENT, mcp_result_block_kind(result, -1));
    STATUS(MCP_OK, mcp_result_free(result));
    STATUS(MCP_OK, mcp_call_free(call));

    STATUS(MCP_OK, mcp_tool_run(client, "tool_error", "{\"text\":\"no\"}", 13, NULL, 0, PATIENCE_MS, &call));
    STATUS(MCP_OK, mcp_call_result(call, &result));
    EQUAL(1, mcp_result_is_error(result));
    STATUS(MCP_OK, mcp_result_free(result));
    STATUS(MCP_OK, mcp_call_free(call));

    mcp_error *error = NULL;
    int64_t number = 0;
    STATUS(MCP_E_RPC, mcp_tool_run(client, "rpc_error", NULL, 0, NULL, 0, PATIENCE_MS, &call));
    STATUS(MCP_OK, mcp_last_error(&error));
    STATUS(MCP_OK, mcp_error_number(error, MCP_ERROR_RPC_CODE, &number));
    EQUAL(-32050, number);
    STATUS(MCP_OK, mcp_error_free(error));
    STATUS(MCP_OK, mcp_call_error(call, &error));
    CHECK(error != NULL);
    STATUS(MCP_OK, mcp_error_free(error));
    STATUS(MCP_OK, mcp_call_free(call));

    end_client(client);
    EQUAL(1, counted(&destroyed));
    end_library();
}
