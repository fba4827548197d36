/* The destructor of user data runs exactly once, on every path. */
#include "check.h"

static void ignore(mcp_event *event, void *user)
{
    (void)event;
    (void)user;
}

static void ignore_line(int32_t level, const char *message, size_t length, void *user)
{
    (void)level;
    (void)message;
    (void)length;
    (void)user;
}

static void normal(void)
{
    counter c = COUNTER;
    mcp_client *client = new_client("");
    STATUS(MCP_OK, mcp_client_on(client, MCP_EVENT_STATE, ignore, &c, count_destroyed));
    open_client(client);
    EQUAL(0, counted(&c));
    end_client(client);
    EQUAL(1, counted(&c));
}

static void refused(void)
{
    counter c = COUNTER;
    mcp_client *client = new_client("");
    STATUS(MCP_E_ARGUMENT, mcp_client_on(client, 4711, ignore, &c, count_destroyed));
    EQUAL(1, counted(&c));
    STATUS(MCP_E_HANDLE, mcp_client_on(NULL, MCP_EVENT_STATE, ignore, &c, count_destroyed));
    EQUAL(2, counted(&c));
    open_client(client);
    STATUS(MCP_E_STATE, mcp_client_on(client, MCP_EVENT_STATE, ignore, &c, count_destroyed));
    EQUAL(3, counted(&c));
    end_client(client);
    STATUS(MCP_E_HANDLE, mcp_client_on(client, MCP_EVENT_STATE, ignore, &c, count_destroyed));
    EQUAL(4, counted(&c));
    STATUS(MCP_E_ARGUMENT, mcp_log_on(NULL, 99, ignore_line, &c, count_destroyed));
    EQUAL(5, counted(&c));
    STATUS(MCP_E_HANDLE, mcp_log_on((mcp_queue *)&c, MCP_LOG_DEBUG, ignore_line, &c, count_destroyed));
    EQUAL(6, counted(&c));
}

static void replaced(void)
{
    counter first = COUNTER, second = COUNTER, none = COUNTER;
    mcp_client *client = new_client("");
    STATUS(MCP_OK, mcp_client_on(client, MCP_EVENT_STATE, ignore, &first, count_destroyed));
    STATUS(MCP_OK, mcp_client_on(client, MCP_EVENT_STATE, ignore, &second, count_destroyed));
    EQUAL(1, counted(&first));
    EQUAL(0, counted(&second));
    /* Removed: the handler that was there, and the data that came with no function. */
    STATUS(MCP_OK, mcp_client_on(client, MCP_EVENT_STATE, NULL, &none, count_destroyed));
    EQUAL(1, counted(&second));
    AWAIT(&none, 1);
    open_client(client);
    end_client(client);
    EQUAL(1, counted(&first));
    EQUAL(1, counted(&second));
    EQUAL(1, counted(&none));
}

static void never_opened(void)
{
    counter freed = COUNTER, closed = COUNTER;
    mcp_client *client = new_client("");
    STATUS(MCP_OK, mcp_client_on(client, MCP_EVENT_ANY, ignore, &freed, count_destroyed));
    STATUS(MCP_OK, mcp_client_free(client));
    AWAIT(&freed, 1);
    client = new_client("");
    STATUS(MCP_OK, mcp_client_on(client, MCP_EVENT_ANY, ignore, &closed, count_destroyed));
    end_client(client);
    EQUAL(1, counted(&closed));
    EQUAL(1, counted(&freed));
}

static void opening_failed(void)
{
    counter c = COUNTER;
    mcp_client *client = NULL;
    const char *nobody = "{\"url\":\"http://127.0.0.1:9/mcp\"}";
    STATUS(MCP_OK, mcp_client_new(nobody, strlen(nobody), &client));
    STATUS(MCP_OK, mcp_client_on(client, MCP_EVENT_ANY, ignore, &c, count_destroyed));
    STATUS(MCP_OK, mcp_client_open(client));
    STATUS(MCP_E_CONNECT, mcp_client_wait_open(client, PATIENCE_MS));
    EQUAL(MCP_STATE_FAILED, mcp_client_state(client));
    EQUAL(0, counted(&c));
    STATUS(MCP_OK, mcp_client_free(client));
    AWAIT(&c, 1);
}

/* The queue goes first: inside that call, or when the client ends. */
static void queue_freed_first(int dispatched)
{
    counter c = COUNTER;
    mcp_queue *queue = NULL;
    STATUS(MCP_OK, mcp_queue_new(&queue));
    mcp_client *client = new_client("");
    STATUS(MCP_OK, mcp_client_set_queue(client, queue));
    STATUS(MCP_OK, mcp_client_on(client, MCP_EVENT_ANY, ignore, &c, count_destroyed));
    open_client(client);
    while (dispatched && mcp_queue_dispatch(queue, 0, NULL) == MCP_OK) {}
    STATUS(MCP_OK, mcp_queue_free(queue));
    end_client(client);
    EQUAL(1, counted(&c));
}

/* The last events of a client wait in a queue that is freed. */
static void queue_freed_with_events(void)
{
    counter c = COUNTER;
    mcp_queue *queue = NULL;
    STATUS(MCP_OK, mcp_queue_new(&queue));
    mcp_client *client = new_client("");
    STATUS(MCP_OK, mcp_client_set_queue(client, queue));
    STATUS(MCP_OK, mcp_client_on(client, MCP_EVENT_ANY, ignore, &c, count_destroyed));
    open_client(client);
    STATUS(MCP_OK, mcp_client_close(client));
    STATUS(MCP_OK, mcp_client_free(client));
    STATUS(MCP_OK, mcp_queue_free(queue));
    AWAIT(&c, 1);
}

static void at_shutdown(void)
{
    counter open = COUNTER, fresh = COUNTER;
    mcp_client *client = new_client(""), *other = new_client("");
    STATUS(MCP_OK, mcp_client_on(client, MCP_EVENT_ANY, ignore, &open, count_destroyed));
    STATUS(MCP_OK, mcp_client_on(other, MCP_EVENT_ANY, ignore, &fresh, count_destroyed));
    open_client(client);
    end_library();
    EQUAL(1, counted(&open));
    EQUAL(1, counted(&fresh));
    EQUAL(MCP_STATE_CLOSED, mcp_client_state(client));
    EQUAL(MCP_STATE_CLOSED, mcp_client_state(other));
    STATUS(MCP_OK, mcp_client_free(client));
    STATUS(MCP_OK, mcp_client_free(other));
    end_library();
    EQUAL(1, counted(&open));
    EQUAL(1, counted(&fresh));
}

static void log_hook(void)
{
    counter first = COUNTER, second = COUNTER;
    STATUS(MCP_OK, mcp_log_on(NULL, MCP_LOG_DEBUG, ignore_line, &first, count_destroyed));
    normal();
    STATUS(MCP_OK, mcp_log_on(NULL, MCP_LOG_DEBUG, ignore_line, &second, count_destroyed));
    AWAIT(&first, 1);
    normal();
    STATUS(MCP_OK, mcp_log_on(NULL, MCP_LOG_DEBUG, NULL, NULL, NULL));
    AWAIT(&second, 1);
    end_library();
    EQUAL(1, counted(&first));
    EQUAL(1, counted(&second));
}

PROGRAM
{
    normal();
    refused();
    replaced();
    never_opened();
    opening_failed();
    queue_freed_first(0);
    queue_freed_first(1);
    queue_freed_with_events();
    log_hook();
    at_shutdown();
    end_library();
}
