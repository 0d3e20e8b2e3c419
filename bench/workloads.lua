-- The requests that wrk sends. Arguments: the workload, the number of users, a prefix that makes the addresses of this run
-- unique, and perhaps paths to GET, with spaces between them. load.mjs has the same in JavaScript for autocannon.
local workload, users, run
local paths = {}
local serial = 0
local json = { ["Content-Type"] = "application/json" }

function init(args)
  for name, value in pairs(wrk.headers) do json[name] = value end
  workload, users, run = args[1], tonumber(args[2]), args[3]
  for path in args[4]:gmatch("%S+") do table.insert(paths, path) end
  math.randomseed(os.time())
end

local function path_of_one()
  return "/users/" .. math.random(users)
end

local function create()
  local body = string.format('{"user":{"name":"User %d","email":"%s.%d@example.com"}}', serial, run, serial)
  return wrk.format("POST", "/users", json, body)
end

local function rename()
  return wrk.format("PUT", path_of_one(), json, string.format('{"user":{"name":"%s %d"}}', run, serial))
end

function request()
  serial = serial + 1
  if #paths > 0 then return wrk.format("GET", paths[math.random(#paths)]) end
  if workload == "create" then return create() end
  if workload == "update" then return rename() end
  if workload == "mix" and serial % 20 == 0 then return create() end
  if workload == "mix" and serial % 20 == 10 then return rename() end
  return wrk.format("GET", path_of_one())
end

-- errors.status counts statuses over 399.
function done(summary, latency)
  local errors = summary.errors
  io.write(string.format(
    '{"requests":%d,"seconds":%.6f,"p50Ms":%.3f,"p99Ms":%.3f,"refused":%d,"failed":%d}\n',
    summary.requests, summary.duration / 1e6, latency:percentile(50) / 1e3, latency:percentile(99) / 1e3,
    errors.status, errors.connect + errors.read + errors.write + errors.timeout))
end
