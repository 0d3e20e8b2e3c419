-- The requests that wrk sends, one after another and again. Arguments: the number of users, a prefix that makes the addresses
-- of this run unique, and the requests, as load.mjs describes them, one a line. It does the same in JavaScript for autocannon.
local requests = {}
local values = {}
local users
local serial = 0
local json = { ["Content-Type"] = "application/json" }

function init(args)
  for name, value in pairs(wrk.headers) do json[name] = value end
  users, values.run = tonumber(args[1]), args[2]
  for line in args[3]:gmatch("[^\n]+") do
    local method, path, body = line:match("^(%S+) (%S+) ?(.*)$")
    table.insert(requests, { method = method, path = path, body = body ~= "" and body or nil })
  end
  math.randomseed(os.time())
end

local function fill(text)
  return (text:gsub("%$(%a+)", values))
end

function request()
  serial = serial + 1
  values.n, values.id = serial, math.random(users)
  local next = requests[serial % #requests + 1]
  if next.body then return wrk.format(next.method, fill(next.path), json, fill(next.body)) end
  return wrk.format(next.method, fill(next.path))
end

-- errors.status counts statuses over 399.
function done(summary, latency)
  local errors = summary.errors
  io.write(string.format(
    '{"requests":%d,"seconds":%.6f,"p50Ms":%.3f,"p99Ms":%.3f,"failed":%d}\n',
    summary.requests, summary.duration / 1e6, latency:percentile(50) / 1e3, latency:percentile(99) / 1e3,
    errors.status + errors.connect + errors.read + errors.write + errors.timeout))
end
