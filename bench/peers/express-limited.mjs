// Express with nothing but express-rate-limit, which counts in Redis by rate-limit-redis. Without REDIS_URL it has no limit.
import { createClient } from '@redis/client'
import { rateLimit } from 'express-rate-limit'
import { RedisStore } from 'rate-limit-redis'
import { serveUsers } from './express-routes.mjs'

const url = process.env.REDIS_URL
serveUsers(...(url ? [await createLimiter()] : []))

async function createLimiter() {
  const client = await createClient({ url }).connect()
  const store = new RedisStore({ sendCommand: (...args) => client.sendCommand(args) })
  return rateLimit({ windowMs: 60_000, limit: 1_000_000_000, standardHeaders: 'draft-8', store })
}
