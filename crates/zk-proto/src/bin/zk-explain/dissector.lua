-- A dissector of ZooKeeper's client protocol for Wireshark 4, made by `zk-explain wireshark`.
--
-- Copy it into the folder "Personal Lua Plugins" (Help > About Wireshark > Folders), or:
--   tshark -X lua_script:zookeeper.lua -r capture.pcap -Y zookeeper
--
-- It reads port 2181. For other ports, use "Decode As".

local zookeeper = Proto("zookeeper", "ZooKeeper")

-- Tables of the protocol --------------------------------------------------------------------------

local names, records, requests, responses, multis = {}, {}, {}, {}, {}
--TABLES--
-- Fields ------------------------------------------------------------------------------------------

local constructors = {
    byte = function(abbreviation, name) return ProtoField.uint8(abbreviation, name) end,
    boolean = function(abbreviation, name) return ProtoField.bool(abbreviation, name) end,
    int = function(abbreviation, name, values) return ProtoField.int32(abbreviation, name, base.DEC, values) end,
    long = function(abbreviation, name) return ProtoField.int64(abbreviation, name) end,
    id = function(abbreviation, name) return ProtoField.uint64(abbreviation, name, base.HEX) end,
    time = function(abbreviation, name) return ProtoField.absolute_time(abbreviation, name, base.UTC) end,
    ustring = function(abbreviation, name) return ProtoField.string(abbreviation, name) end,
    nullable_ustring = function(abbreviation, name) return ProtoField.string(abbreviation, name) end,
    buffer = function(abbreviation, name) return ProtoField.bytes(abbreviation, name) end,
}

local fields = {
    length = ProtoField.int32("zookeeper.length", "Length"),
    path = ProtoField.string("zookeeper.path", "Path"),
    opcode = ProtoField.int32("zookeeper.opcode", "Operation", base.DEC, names.OpCode),
    xid = ProtoField.int32("zookeeper.xid", "Xid"),
    err = ProtoField.int32("zookeeper.err", "Error", base.DEC, names.ErrorCode),
    response_in = ProtoField.framenum("zookeeper.response_in", "Response in", base.NONE, frametype.RESPONSE),
    response_to = ProtoField.framenum("zookeeper.response_to", "Response to", base.NONE, frametype.REQUEST),
    time = ProtoField.relative_time("zookeeper.time", "Response time"),
    word = ProtoField.string("zookeeper.word", "Four-letter word"),
    text = ProtoField.string("zookeeper.text", "Text"),
}
-- The field of each field of a record, and of the number of items of a vector.
local field_of, count_of = {}, {}

local function declare(record)
    for _, field in ipairs(records[record]) do
        local name, kind = field[1], field[2]
        local key = record .. "." .. name
        local abbreviation = "zookeeper." .. string.lower(key)
        if kind == "vector" then
            count_of[key] = ProtoField.int32(abbreviation .. ".count", name .. " (items)")
            kind = field[3]
        end
        local construct = constructors[kind:gsub("?", "")]
        if construct then
            field_of[key] = construct(abbreviation, name, names[field[4]])
        end
    end
end

for record in pairs(records) do
    declare(record)
end
local all = {}
for _, group in ipairs({ fields, field_of, count_of }) do
    for _, field in pairs(group) do
        all[#all + 1] = field
    end
end
zookeeper.fields = all

local malformed = ProtoExpert.new("zookeeper.malformed", "Malformed message", expert.group.MALFORMED, expert.severity.ERROR)
local failed = ProtoExpert.new("zookeeper.failed", "The operation failed", expert.group.RESPONSE_CODE, expert.severity.NOTE)
local unmatched = ProtoExpert.new("zookeeper.unmatched", "A reply without its request", expert.group.SEQUENCE, expert.severity.NOTE)
zookeeper.experts = { malformed, failed, unmatched }

-- Values ------------------------------------------------------------------------------------------

-- Where a message is read: its bytes, and the offset of the next one.
local function need(at, count)
    if count > at.tvb:len() - at.offset then
        error({ what = "the frame ends inside a field" })
    end
    local range = at.tvb(at.offset, count)
    return range
end

-- Reads a length: nil stands for null.
local function length(at)
    local count = need(at, 4):int()
    if count < -1 then
        error({ what = "a length is negative" })
    end
    if count > at.tvb:len() - at.offset - 4 then
        error({ what = "a length exceeds the frame" })
    end
    return count >= 0 and count or nil
end

local readers = {}

function readers.byte(at, tree, field)
    tree:add(field, need(at, 1))
    at.offset = at.offset + 1
end

function readers.boolean(at, tree, field)
    tree:add(field, need(at, 1))
    at.offset = at.offset + 1
end

function readers.int(at, tree, field)
    local range = need(at, 4)
    tree:add(field, range)
    at.offset = at.offset + 4
    return range:int()
end

function readers.long(at, tree, field)
    tree:add(field, need(at, 8))
    at.offset = at.offset + 8
end

readers.id = readers.long

function readers.time(at, tree, field)
    local range = need(at, 8)
    local milliseconds = range:int64():tonumber()
    local seconds = math.floor(milliseconds / 1000)
    -- What Wireshark has room for.
    if math.abs(seconds) < 2 ^ 31 then
        tree:add(field, range, NSTime.new(seconds, math.floor(milliseconds - seconds * 1000) * 1000000))
    else
        tree:add(field, range, NSTime.new(0, 0)):append_text(" (out of range)")
    end
    at.offset = at.offset + 8
end

function readers.nullable_ustring(at, tree, field, name)
    local count = length(at)
    local range = at.tvb(at.offset, 4 + (count or 0))
    at.offset = at.offset + range:len()
    if not count then
        tree:add(range, name .. ": null")
        return nil
    end
    local text = count > 0 and range(4):string(ENC_UTF_8) or ""
    tree:add(field, range, text)
    return text
end

function readers.ustring(at, tree, field, name)
    if need(at, 4):int() == -1 then
        error({ what = "null is not allowed" })
    end
    return readers.nullable_ustring(at, tree, field, name)
end

function readers.buffer(at, tree, field, name)
    local count = length(at)
    local range = at.tvb(at.offset, 4 + (count or 0))
    at.offset = at.offset + range:len()
    if count and count > 0 then
        tree:add(field, range(4))
    else
        tree:add(range, name .. (count and ": empty" or ": null"))
    end
end

local read_record

local function read_value(at, tree, kind, field, name, item)
    if kind:sub(-1) == "?" then
        if at.offset == at.tvb:len() then
            return nil
        end
        kind = kind:sub(1, -2)
    end
    if kind == "record" then
        return read_record(at, tree:add(at.tvb(at.offset), name), item)
    end
    return readers[kind](at, tree, field, name)
end

-- Reads a record, and returns the values of its numbers and strings by their names.
function read_record(at, tree, record)
    local start, values = at.offset, {}
    for _, field in ipairs(records[record]) do
        local name, kind, item = field[1], field[2], field[3]
        local key = record .. "." .. name
        if kind == "vector" then
            local count = length(at)
            tree:add(count_of[key], at.tvb(at.offset, 4))
            at.offset = at.offset + 4
            local paths = {}
            for _ = 1, count or 0 do
                local kind = readers[item] and item or "record"
                paths[#paths + 1] = read_value(at, tree, kind, field_of[key], item, item)
            end
            if name:sub(-8) == "_watches" then
                for _, path in ipairs(paths) do
                    at.paths[#at.paths + 1] = path
                end
            end
        else
            values[name] = read_value(at, tree, kind, field_of[key], name, item)
            if (name == "path" or name == "prefix_path") and values[name] then
                at.paths[#at.paths + 1] = values[name]
            end
        end
    end
    tree:set_len(at.offset - start)
    return values
end

local function read_multi(at, tree, layouts, is_reply)
    while true do
        local item = tree:add(at.tvb(at.offset), "item")
        local start = at.offset
        local header = read_record(at, item, "MultiHeader")
        item:set_len(at.offset - start)
        if at.tvb(start + 4, 1):uint() ~= 0 then
            item:set_text("end")
            return
        end
        local record = layouts[header.opcode]
        item:set_text((names.OpCode[header.opcode] or header.opcode) .. "")
        -- ClickHouse Keeper sends no body of a failed result, unless its operation is -1.
        local is_bare = is_reply and header.err ~= 0 and header.opcode ~= -1
        if not record and not is_bare then
            error({ what = "operation " .. header.opcode .. " is not allowed here" })
        end
        if not is_bare then
            read_record(at, item:add(at.tvb(at.offset), record), record)
        end
        item:set_len(at.offset - start)
    end
end

local function read_body(at, tree, layout, is_reply)
    if not layout then
        error({ what = "unknown operation" })
    elseif multis[layout] then
        read_multi(at, tree, multis[layout], is_reply)
    elseif #records[layout] > 0 then
        read_record(at, tree:add(at.tvb(at.offset), layout), layout)
    end
end

-- Connections -------------------------------------------------------------------------------------

local stream_of = Field.new("tcp.stream")
-- The state of each connection, and what is known of each message since it was first read.
local streams, messages = {}, {}

function zookeeper.init()
    streams, messages = {}, {}
end

local PORT = 2181

local function stream_state(pinfo)
    local id = stream_of().value
    local stream = streams[id]
    if not stream then
        -- A client speaks first.
        local client = pinfo.dst_port ~= PORT and pinfo.src_port == PORT and pinfo.dst_port or pinfo.src_port
        stream = { client = client, sent = 0, received = 0, unanswered = {}, is_text = false }
        streams[id] = stream
    end
    return stream, pinfo.src_port == stream.client
end

local function is_handshake(tvb)
    local length = tvb:len() - 4
    return tvb:len() >= 8 and tvb(4, 4):int() == 0
        and (length == 44 or length == 45 or length == 36 or length == 37 or length == 28 or length == 20)
end

-- Finds out what a message is, when it is read for the first time.
local function classify(tvb, pinfo)
    local stream, is_request = stream_state(pinfo)
    local message = { is_request = is_request }
    if is_request then
        message.is_handshake = stream.sent == 0 and is_handshake(tvb)
        stream.sent = stream.sent + 1
        if not message.is_handshake and tvb:len() >= 12 then
            message.opcode = tvb(8, 4):int()
            -- The reply to a ping has the xid of pings, whatever the request had.
            local xid = message.opcode == 11 and -2 or tvb(4, 4):int()
            message.number, message.time = pinfo.number, pinfo.abs_ts
            local queue = stream.unanswered[xid] or { first = 1, last = 0 }
            queue.last = queue.last + 1
            queue[queue.last] = message
            stream.unanswered[xid] = queue
        end
    else
        local is_first = stream.received == 0
        stream.received = stream.received + 1
        message.is_handshake = is_first and is_handshake(tvb)
        message.is_refusal = is_first and tvb:len() == 20 and tvb(4, 4):int() == 0 and tvb(16, 4):int() ~= 0
        if message.is_refusal then
            message.is_handshake = false
        elseif not message.is_handshake and tvb:len() >= 8 then
            local queue = stream.unanswered[tvb(4, 4):int()]
            if queue and queue.first <= queue.last then
                message.request = queue[queue.first]
                queue[queue.first] = nil
                queue.first = queue.first + 1
                message.request.reply = pinfo.number
                message.opcode = message.request.opcode
                -- Absolute times are seconds as a number, which has room for microseconds.
                local micros = math.floor((pinfo.abs_ts - message.request.time) * 1e6 + 0.5)
                message.latency = NSTime.new(math.floor(micros / 1e6), micros % 1000000 * 1000)
            end
        end
    end
    return message
end

local function read_message(at, tree, message)
    if message.is_handshake then
        local record = message.is_request and "ConnectRequest" or "ConnectResponse"
        read_record(at, tree:add(at.tvb(at.offset), record), record)
        return message.is_request and "connect" or "connected"
    end
    local record = message.is_request and "RequestHeader" or "ReplyHeader"
    local header = read_record(at, tree:add(at.tvb(at.offset), record), record)
    tree:add(fields.xid, header.xid):set_generated()
    if message.is_request then
        tree:add(fields.opcode, header.opcode):set_generated()
        local text = names.OpCode[header.opcode] or ("operation " .. header.opcode)
        message.text = text
        read_body(at, tree, requests[header.opcode], false)
        return text
    end
    local error_name = names.ErrorCode[header.err] or ("error " .. header.err)
    tree:add(fields.err, header.err):set_generated()
    if header.xid == -1 then
        local event = read_record(at, tree:add(at.tvb(at.offset), "WatcherEvent"), "WatcherEvent")
        return "event " .. (names.EventType[event.event_type] or event.event_type)
    end
    if header.err ~= 0 then
        tree:add_proto_expert_info(failed, error_name)
    end
    if message.is_refusal then
        return "refused: " .. error_name
    end
    if not message.request then
        tree:add_proto_expert_info(unmatched)
        at.offset = at.tvb:len()
        return "reply " .. error_name
    end
    tree:add(fields.opcode, message.opcode):set_generated()
    message.text = "reply to " .. (names.OpCode[message.opcode] or message.opcode) .. (header.err ~= 0 and " " .. error_name or "")
    local layout = responses[message.opcode]
    if header.err == 0 then
        read_body(at, tree, layout, true)
    elseif at.offset < at.tvb:len() then
        -- The body of a failed reply has no meaning, and is mostly absent.
        pcall(read_body, at, tree, layout, true)
        at.offset = at.tvb:len()
    end
    return message.text
end

local function dissect_message(tvb, pinfo, root)
    local key = pinfo.number .. ":" .. tvb:offset()
    local message = messages[key]
    if not message then
        message = classify(tvb, pinfo)
        messages[key] = message
    end
    local tree = root:add(zookeeper, tvb())
    tree:add(fields.length, tvb(0, 4))
    local at = { tvb = tvb, offset = 4, paths = {} }
    local is_read, text = pcall(read_message, at, tree, message)
    if is_read and at.offset < tvb:len() then
        is_read, text = false, { what = (tvb:len() - at.offset) .. " bytes are left over" }
    end
    if not is_read then
        local what = type(text) == "table" and text.what or tostring(text)
        tree:add_proto_expert_info(malformed, what)
        text = (message.text or "message") .. " [malformed: " .. what .. "]"
    end
    if message.is_request then
        message.paths = at.paths
    end
    local paths = message.request and message.request.paths or at.paths
    for _, path in ipairs(paths) do
        tree:add(fields.path, path):set_generated()
    end
    if message.reply then
        tree:add(fields.response_in, message.reply):set_generated()
    end
    if message.request then
        tree:add(fields.response_to, message.request.number):set_generated()
        tree:add(fields.time, message.latency):set_generated()
    end
    text = text .. (paths[1] and " " .. paths[1] or "")
    tree:append_text(", " .. text)
    pinfo.cols.info:append((tostring(pinfo.cols.info) ~= "" and ", " or "") .. text)
    return tvb:len()
end

local function frame_length(tvb, _, offset)
    local length = tvb(offset, 4):int()
    -- What cannot be a frame is shown as far as it is there.
    if length < 0 or length > 0x10000000 then
        return tvb:len() - offset
    end
    return 4 + length
end

function zookeeper.dissector(tvb, pinfo, root)
    pinfo.cols.protocol = "ZooKeeper"
    local stream, is_request = stream_state(pinfo)
    local key = "text:" .. pinfo.number
    if messages[key] == nil then
        local is_word = is_request and stream.sent == 0 and tvb:len() >= 4
            and tvb(0, 4):string():match("^%l%l%l%l$") ~= nil
        stream.is_text = stream.is_text or is_word
        -- The dialects of ClickHouse Keeper: see the module `keeper` of zk-proto.
        local length = is_request and stream.sent == 0 and tvb:len() >= 48 and tvb(0, 4):int()
        local version = (length == 44 or length == 45) and tvb(4, 4):int()
        if version and version >= 10 and version <= 12 then
            stream.dialect, stream.sent = version, 1
        end
        messages[key] = { is_text = stream.is_text, is_word = is_word, dialect = stream.dialect }
    end
    if messages[key].dialect then
        pinfo.cols.info = "protocol version " .. messages[key].dialect .. ", which is not dissected"
        root:add(zookeeper, tvb()):append_text(", " .. tostring(pinfo.cols.info))
        return tvb:len()
    end
    if messages[key].is_text then
        pinfo.cols.info = tvb():string()
        local tree = root:add(zookeeper, tvb())
        tree:add(messages[key].is_word and fields.word or fields.text, tvb())
        return tvb:len()
    end
    pinfo.cols.info:clear()
    dissect_tcp_pdus(tvb, root, 4, frame_length, dissect_message)
    return tvb:len()
end

DissectorTable.get("tcp.port"):add(PORT, zookeeper)
