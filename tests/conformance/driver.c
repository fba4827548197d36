/* The client under test of the official conformance suite: a program on the public C ABI alone.
 *
 *   MCP_CONFORMANCE_SCENARIO=NAME MCP_CONFORMANCE_PROTOCOL_VERSION=2026-07-28 driver http://127.0.0.1:8080/mcp
 *
 * The suite starts it once per scenario, plays the server, and judges what it sees. The program does what a host would
 * do there and no more; a step that fails is reported and the rest goes on. Exit code: 0 where every step went well. */
#include <mcpnative.h>

#include "json.h"
#include "sha256.h"

#define PATIENCE_MS 30000

static mcp_client *client;
static int failures;

/* ---- Steps: one request each --------------------------------------------------------------------------------------- */

static void failed(mcp_error *error, const char *what)
{
    const char *why = error ? mcp_error_text(error, MCP_ERROR_MESSAGE, NULL) : NULL;
    fprintf(stderr, "%s: %s\n", what, why ? why : "no reason");
    mcp_error_free(error);
    failures++;
}

static int fine(mcp_status status, const char *what)
{
    mcp_error *error = NULL;
    if (status >= 0)
        return 1;
    mcp_last_error(&error);
    failed(error, what);
    return 0;
}

/* The end of a call. The result's text is left to live as long as the program: a slice may point into it. */
static json ended(mcp_status status, mcp_call *call, const char *what)
{
    mcp_result *result = NULL;
    mcp_error *error = NULL;
    json value = {NULL, 0};
    if (call && mcp_call_result(call, &result) == MCP_OK) {
        size_t length = 0;
        const char *text = mcp_result_text(result, MCP_RESULT_JSON, &length);
        value = json_of(text, length);
    } else if (call && mcp_call_error(call, &error) == MCP_OK) {
        failed(error, what);
    } else {
        fine(status, what);
    }
    mcp_call_free(call);
    return value;
}

static json call_tool(const char *name, json arguments)
{
    mcp_call *call = NULL;
    mcp_status status = mcp_tool_run(client, name, arguments.at, arguments.length, NULL, 0, PATIENCE_MS, &call);
    return ended(status, call, name);
}

static json request(const char *method, const char *params)
{
    static const char all[] = "{\"all_pages\":true}";
    size_t length = strlen(method);
    int list = length > 5 && strcmp(method + length - 5, "/list") == 0 && strcmp(method, "skills/list") != 0;
    mcp_call *call = NULL;
    mcp_status status = mcp_call_run(client, method, params, params ? strlen(params) : 0, list ? all : NULL,
                                     list ? sizeof all - 1 : 0, PATIENCE_MS, &call);
    return ended(status, call, method);
}

static json request_by(const char *method, const char *field, json value)
{
    char params[4096];
    if (!value.at || value.length > sizeof params - 64)
        return (json){NULL, 0};
    snprintf(params, sizeof params, "{\"%s\":%.*s}", field, (int)value.length, value.at);
    return request(method, params);
}

static json tools(void)
{
    mcp_text *text = NULL;
    size_t length = 0;
    if (!fine(mcp_tool_list(client, PATIENCE_MS, &text), "tools/list"))
        return (json){NULL, 0};
    const char *list = mcp_text_get(text, &length);
    return json_get(json_of(list, length), "tools");
}

/* ---- Questions of the server: the form's defaults, yes to what has none --------------------------------------------- */

static void on_elicitation(mcp_event *event, void *user)
{
    (void)user;
    char content[8192] = "{";
    size_t used = 1, length = 0;
    mcp_input *input = NULL;
    if (mcp_event_input(event, &input) != MCP_OK)
        return;
    const char *params = mcp_input_text(input, MCP_INPUT_PARAMS, &length);
    json form = json_get(json_get(json_of(params, length), "requestedSchema"), "properties");
    json key = {NULL, 0}, field;
    const char *cursor = NULL;
    while (json_next(form, &cursor, &key, &field)) {
        json value = json_get(field, "default");
        if (!value.at && json_is(json_get(field, "type"), "\"boolean\""))
            value = json_of("true", 4);
        if (!value.at || used + key.length + value.length + 4 > sizeof content)
            continue;
        used += (size_t)snprintf(content + used, sizeof content - used, "%s%.*s:%.*s", used > 1 ? "," : "", (int)key.length,
                                 key.at, (int)value.length, value.at);
    }
    content[used++] = '}';
    fine(mcp_input_answer(input, content, used), "elicitation");
    mcp_input_free(input);
}

/* Sampling and roots: no scenario asks, but a client that would answer declares them. */
static void on_other_question(mcp_event *event, void *user)
{
    mcp_input *input = NULL;
    if (mcp_event_input(event, &input) == MCP_OK)
        fine(mcp_input_answer(input, user, strlen(user)), "sampling or roots");
    mcp_input_free(input);
}

/* ---- Tools and schemas ----------------------------------------------------------------------------------------------- */

static void list_tools(void) { tools(); }

static void add_numbers(void)
{
    tools();
    call_tool("add_numbers", json_of("{\"a\":5,\"b\":3}", 13));
}

static void call_what_is_listed(void)
{
    json key, tool;
    const char *cursor = NULL;
    for (json list = tools(); json_next(list, &cursor, &key, &tool);) {
        char *name = json_text(json_get(tool, "name"));
        call_tool(name, json_of("{}", 2));
        free(name);
    }
}

static void echo_schema(void)
{
    json key, tool;
    const char *cursor = NULL;
    for (json list = tools(); json_next(list, &cursor, &key, &tool);) {
        json schema = json_get(tool, "inputSchema");
        if (!json_is(json_get(tool, "name"), "\"json_schema_2020_12_tool\"") || !schema.at)
            continue;
        char *arguments = malloc(schema.length + 16);
        int length = sprintf(arguments, "{\"schema\":%.*s}", (int)schema.length, schema.at);
        call_tool("json_schema_echo", json_of(arguments, (size_t)length));
        free(arguments);
    }
}

/* ---- Headers --------------------------------------------------------------------------------------------------------- */

static void standard_headers(void)
{
    call_what_is_listed();
    json key, item;
    const char *cursor = NULL;
    for (json list = json_get(request("resources/list", NULL), "resources"); json_next(list, &cursor, &key, &item);)
        request_by("resources/read", "uri", json_get(item, "uri"));
    cursor = NULL;
    for (json list = json_get(request("prompts/list", NULL), "prompts"); json_next(list, &cursor, &key, &item);)
        request_by("prompts/get", "name", json_get(item, "name"));
}

static void custom_headers(void)
{
    const char *context = getenv("MCP_CONFORMANCE_CONTEXT");
    json calls = json_get(json_of(context, context ? strlen(context) : 0), "toolCalls");
    json key, call;
    const char *cursor = NULL;
    tools();
    while (json_next(calls, &cursor, &key, &call)) {
        char *name = json_text(json_get(call, "name"));
        call_tool(name, json_get(call, "arguments"));
        free(name);
    }
}

/* ---- Questions in the middle of a call, streams that break ------------------------------------------------------------ */

static void elicitation_defaults(void)
{
    tools();
    call_tool("test_client_elicitation_defaults", json_of("{}", 2));
}

static void request_state(void)
{
    static const char *const names[] = {"test_mrtr_echo_state", "test_mrtr_unrelated", "test_mrtr_no_state",
                                        "test_mrtr_no_result_type"};
    tools();
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        call_tool(names[i], json_of("{}", 2));
}

static void reconnection(void)
{
    tools();
    call_tool("test_reconnection", json_of("{}", 2));
}

/* ---- Skills (SEP-2640): the host checks a file against its entry before it uses it ------------------------------------ */

static json skill(void) /* the first of the list */
{
    json key, entry = {NULL, 0};
    const char *cursor = NULL;
    json_next(json_get(request("skills/list", NULL), "skills"), &cursor, &key, &entry);
    return entry;
}

static void list_skills(void) { skill(); }

/* Every field of the entry's frontmatter stands in the file's, a line each, and there is no line more. Plain scalars are
 * all that the suite's skills have; anything else is a mismatch. */
static int same_frontmatter(const char *text, json frontmatter)
{
    const char *end = strncmp(text, "---\n", 4) == 0 ? strstr(text + 4, "\n---\n") : NULL;
    json key = {NULL, 0}, value;
    const char *cursor = NULL;
    size_t fields = 0, lines = 0;
    if (!end)
        return 0;
    for (const char *p = text + 3; p && p < end; p = strchr(p + 1, '\n'))
        lines++;
    for (; json_next(frontmatter, &cursor, &key, &value); fields++) {
        char *name = json_text(key), *want = json_text(value), line[1024];
        int length = snprintf(line, sizeof line, "\n%s: %s\n", name ? name : "", want ? want : "");
        const char *at = length < (int)sizeof line ? strstr(text, line) : NULL;
        free(name);
        free(want);
        if (!at || at >= end)
            return 0;
    }
    return fields == lines;
}

static int file_is_right(json listed, json frontmatter)
{
    json key, content = {NULL, 0};
    const char *cursor = NULL;
    char digest[72], size[24];
    json_next(json_get(request_by("resources/read", "uri", json_get(listed, "uri")), "contents"), &cursor, &key, &content);
    char *text = json_text(json_get(content, "text")), *want = json_text(json_get(listed, "digest"));
    int right = 0;
    if (text && want) {
        sha256(text, strlen(text), digest);
        snprintf(size, sizeof size, "%zu", strlen(text));
        right = json_is(json_get(listed, "size"), size) && strcmp(want, digest) == 0
                && (!frontmatter.at || same_frontmatter(text, frontmatter));
    }
    free(text);
    free(want);
    return right;
}

/* SKILL.md first; the first file that is not what the entry says ends the loading of the skill. */
static void load_skill(void)
{
    json entry = skill(), uri = json_get(entry, "uri"), key, listed;
    const char *cursor = NULL;
    while (json_next(json_get(entry, "resources"), &cursor, &key, &listed)) {
        json at = json_get(listed, "uri");
        int main_file = at.at && uri.at && at.length == uri.length && memcmp(at.at, uri.at, at.length) == 0;
        if (!file_is_right(listed, main_file ? json_get(entry, "frontmatter") : json_of(NULL, 0))) {
            fprintf(stderr, "skill not loaded: %.*s is not what its entry says\n", (int)at.length, at.at);
            return;
        }
    }
}

/* ---- Scenarios --------------------------------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    void (*play)(void);
} scenarios[] = {
    {"initialize", list_tools},
    {"request-metadata", list_tools},
    {"json-schema-ref-no-deref", list_tools},
    {"tools_call", add_numbers},
    {"json-schema-2020-12-preservation", echo_schema},
    {"http-standard-headers", standard_headers},
    {"http-custom-headers", custom_headers},
    {"http-invalid-tool-headers", call_what_is_listed},
    {"elicitation-sep1034-client-defaults", elicitation_defaults},
    {"sep-2322-client-request-state", request_state},
    {"sse-retry", reconnection},
    {"sep-2640-client-no-prefetch", list_skills},
    {"sep-2640-client-verify-digest", load_skill},
    {"sep-2640-client-verify-size", load_skill},
    {"sep-2640-client-verify-frontmatter", load_skill},
};

static void on_log(int32_t level, const char *message, size_t length, void *user)
{
    (void)level, (void)user;
    fprintf(stderr, "log: %.*s\n", (int)length, message);
}

static int connect_to(const char *url)
{
    static char sampled[] = "{\"role\":\"assistant\",\"model\":\"none\",\"content\":{\"type\":\"text\",\"text\":\"ok\"}}";
    static char roots[] = "{\"roots\":[]}";
    const char *version = getenv("MCP_CONFORMANCE_PROTOCOL_VERSION");
    const char *era = getenv("MCP_CONFORMANCE_ERA"); /* ours, not the suite's: "auto" tries the finding out as well */
    char settings[2048];
    if (!era)
        era = version && strcmp(version, "2026-07-28") < 0 ? "legacy" : "modern";
    int length = snprintf(settings, sizeof settings,
                          "{\"url\":\"%s\",\"era\":\"%s\",\"client\":{\"name\":\"mcpnative-conformance\",\"version\":\"1.0.0\"},"
                          "\"extensions\":{\"io.modelcontextprotocol/skills\":{}}}",
                          url, era);
    return length < (int)sizeof settings && fine(mcp_log_on(NULL, MCP_LOG_INFO, on_log, NULL, NULL), "log")
           && fine(mcp_client_new(settings, (size_t)length, &client), "settings")
           && fine(mcp_client_on(client, MCP_EVENT_ELICITATION, on_elicitation, NULL, NULL), "handler")
           && fine(mcp_client_on(client, MCP_EVENT_SAMPLING, on_other_question, sampled, NULL), "handler")
           && fine(mcp_client_on(client, MCP_EVENT_ROOTS, on_other_question, roots, NULL), "handler")
           && fine(mcp_client_open(client), "open") && fine(mcp_client_wait_open(client, PATIENCE_MS), "open");
}

int main(int argc, char **argv)
{
    const char *name = getenv("MCP_CONFORMANCE_SCENARIO");
    size_t i = 0, count = sizeof scenarios / sizeof *scenarios;
    while (name && i < count && strcmp(scenarios[i].name, name) != 0)
        i++;
    if (argc < 2 || !name || i == count) {
        fprintf(stderr, "no such scenario here: %s\n", name ? name : "(MCP_CONFORMANCE_SCENARIO is not set)");
        return 2;
    }
    if (connect_to(argv[argc - 1]))
        scenarios[i].play();
    mcp_client_close(client);
    mcp_client_wait_closed(client, PATIENCE_MS);
    mcp_client_free(client);
    mcp_shutdown(PATIENCE_MS);
    return failures > 0;
}
