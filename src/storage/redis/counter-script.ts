import { createHash } from 'node:crypto'

/**
 * Counts each key of KEYS in the window of as many milliseconds as ARGV says. A window of 0 deletes the key; one below 0 does
 * not count, and ends the window in as many milliseconds. Returns two numbers for each: the count, and the milliseconds until
 * the window ends. One script runs at a time, so no count is lost.
 *
 * A key without an expiry would count for ever, so it gets one; such a key remains when a person or a tool removes the expiry.
 */
export const COUNT_SCRIPT = `
local replies = {}
for i = 1, #KEYS do
  local key, window = KEYS[i], ARGV[i]
  local count, left = 0, 0
  if window == '0' then
    redis.call('DEL', key)
  elseif string.sub(window, 1, 1) == '-' then
    redis.call('PEXPIRE', key, string.sub(window, 2))
  else
    count = redis.call('INCR', key)
    left = -1
    if count > 1 then left = redis.call('PTTL', key) end
    if left < 0 then
      redis.call('PEXPIRE', key, window)
      left = tonumber(window)
    end
  end
  replies[2 * i - 1] = count
  replies[2 * i] = left
end
return replies`

/** By which Redis knows the script once it has run. */
export const COUNT_SCRIPT_SHA1 = createHash('sha1').update(COUNT_SCRIPT).digest('hex')
