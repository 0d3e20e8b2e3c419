// Makes the pictures of the operator's page in docs/: starts the built service on a new database, sends it requests of many
// clients for 15 minutes, which is what the charts show, and opens the page in Chromium, in light and in dark.
// Usage: node scripts/screenshot-operator-page.mjs [--minutes N] [--folder docs]
// Needs Chromium at /usr/bin/chromium or at CHROMIUM_PATH.

import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { Agent, request } from 'node:http'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { chromium } from 'playwright-core'
import { shrinkPng } from './shrink-png.mjs'

const MAIN = fileURLToPath(new URL('../dist/main.js', import.meta.url))

const { values } = parseArgs({
  options: {
    minutes: { type: 'string', default: '15' },
    folder: { type: 'string', default: 'docs' },
  },
})
const minutes = Number(values.minutes)
const folder = resolve(values.folder)

const LIMITS = {
  safelist: [{ name: 'office', ip: '203.0.113.0/24' }],
  blocklist: [{ name: 'scanners', userAgent: { regex: 'sqlmap|nikto', flags: 'i' } }],
  throttle: [
    { name: 'per client', limit: 600, period: '1 minute' },
    { name: 'stricter', limit: 400, period: '1 minute', dryRun: true },
  ],
  bans: [
    {
      name: 'wrong passwords',
      method: 'POST',
      path: '/password-verifications',
      status: [422],
      maxretry: 5,
      findtime: '10 minutes',
      bantime: '1 hour',
    },
    {
      name: 'probing',
      path: ['/wp-*', '*.php', '/.env'],
      maxretry: 3,
      findtime: '10 minutes',
      bantime: '30 minutes',
      mode: 'fail2ban',
    },
  ],
  rateLimits: [{ name: 'sign-ups', to: 20, within: '1 minute', only: ['create'] }],
}

const CLIENTS = 150
const TICKS_A_SECOND = 20
const PASSWORD = 'correct horse'
const agent = new Agent({ keepAlive: true, maxSockets: 60 })

const work = mkdtempSync(join(tmpdir(), 'screenshot-'))
const env = {
  PATH: process.env.PATH,
  PORT: '0',
  DATABASE_URL: join(work, 'users.db'),
  LIMITS_FILE: join(work, 'limits.json'),
  API_KEYS: 'required',
  MANAGEMENT_PORT: '0',
  TRUST_PROXY: 'loopback',
  WORKERS: '2',
}
writeFileSync(env.LIMITS_FILE, JSON.stringify(LIMITS))
const keys = {
  web: createKey('web', 'users:read,users:write'),
  login: createKey('login', 'users:read,passwords:verify'),
  reports: createKey('reports', 'users:read'),
}

const service = spawn(process.execPath, [MAIN, 'serve'], {
  cwd: work,
  env,
  stdio: ['ignore', 'pipe', 'inherit'],
})
try {
  const { publicUrl, managementUrl } = await readUrls()
  const users = await createUsers(publicUrl, 500)
  const pictures = sleep(minutes * 60_000).then(() => takePictures(managementUrl))
  await sendUntil(pictures, publicUrl, users)
  await pictures
} finally {
  service.kill('SIGTERM')
  await once(service, 'close')
  agent.destroy()
  rmSync(work, { recursive: true, force: true })
}

function createKey(name, scope) {
  const args = [MAIN, 'keys', 'create', '--name', name, '--scope', scope]
  return execFileSync(process.execPath, args, { cwd: work, env, encoding: 'utf8' }).trim()
}

async function readUrls() {
  let publicUrl
  let managementUrl
  for await (const line of createInterface({ input: service.stdout })) {
    const { msg, url } = JSON.parse(line)
    if (msg === 'management port listens') managementUrl = url
    else if (url !== undefined) publicUrl = url
    if (publicUrl !== undefined && managementUrl !== undefined) break
  }
  service.stdout.resume()
  return { publicUrl, managementUrl }
}

async function createUsers(url, count) {
  const ids = []
  for (let number = 0; number < count; number++) {
    const email = `user.${number}@example.com`
    // Only some have a password: hashing takes time.
    const password = number % 25 === 0 ? PASSWORD : undefined
    // From the office, which no rule limits.
    const answer = await send(url, 'POST', '/users', {
      client: '203.0.113.7',
      user: { name: `User ${number}`, email, password },
    })
    ids.push(JSON.parse(answer.text).id)
  }
  return ids
}

/** Sends requests until `end`, as many a second as belong to that time of the run. */
async function sendUntil(end, url, users) {
  const startedAt = performance.now()
  const running = new Set()
  let isOver = false
  const finish = () => {
    isOver = true
  }
  end.then(finish, finish)
  let due = 0
  while (!isOver) {
    const second = (performance.now() - startedAt) / 1000
    for (due += rateAt(second) / TICKS_A_SECOND; due >= 1; due--) {
      const sent = sendOne(url, users, second).finally(() => running.delete(sent))
      running.add(sent)
    }
    await sleep(1000 / TICKS_A_SECOND)
  }
  await Promise.all(running)
}

/** Requests a second: two slow waves, and a rush in the eleventh minute. */
function rateAt(second) {
  const waves = 260 + 70 * Math.sin(second / 70) + 35 * Math.sin(second / 17)
  const rush = second > 620 && second < 680 ? 320 : 0
  return waves + rush + 40 * (Math.random() - 0.5)
}

async function sendOne(url, users, second) {
  const chance = Math.random()
  // Some clients send far more than others.
  const client = `198.51.100.${1 + Math.floor(CLIENTS * Math.random() ** 1.5)}`
  const id = users[Math.floor(Math.random() * users.length)]
  const path = `/users/${id}`
  const email = `new.${Date.now()}.${Math.random()}@example.com`
  // Now and then a scanner comes by, or somebody who guesses passwords.
  if (Math.floor(second) % 90 < 3 && chance < 0.02) {
    const guest = `192.0.2.${Math.floor(second / 90) * 7 + 20}`
    return send(url, 'GET', ['/wp-login.php', '/.env'][Math.floor(Math.random() * 2)], {
      client: guest,
    })
  }
  if (Math.floor(second) % 140 < 8 && chance < 0.01) {
    const guest = `192.0.2.${Math.floor(second / 140) * 11 + 25}`
    return verify(url, guest, 'a guess')
  }
  if (Math.floor(second) % 200 < 2 && chance < 0.03) {
    return send(url, 'GET', '/users', { client: '192.0.2.9', agentName: 'sqlmap/1.8' })
  }
  if (chance < 0.6) return send(url, 'GET', path, { client })
  if (chance < 0.7)
    return send(url, 'GET', '/users?per_page=50&sort=-created_at', { client, key: 'reports' })
  if (chance < 0.76) return send(url, 'GET', `/users?q=use+${id}`, { client })
  if (chance < 0.84)
    return send(url, 'PUT', path, {
      client,
      user: { name: `User ${Math.floor(Math.random() * 1e6)}` },
    })
  if (chance < 0.94)
    return send(url, 'POST', '/users', { client, user: { name: 'New user', email } })
  if (chance < 0.96)
    return send(url, 'POST', '/users', { client, user: { name: '', email: 'nobody' } })
  if (chance < 0.98) return verify(url, client, PASSWORD)
  return send(url, 'GET', '/users/0', { client })
}

function verify(url, client, password) {
  const user = { email: `user.${25 * Math.floor(Math.random() * 20)}@example.com`, password }
  return send(url, 'POST', '/password-verifications', { client, key: 'login', user })
}

function send(url, method, path, { client, key = 'web', user, agentName = 'example/1.0' }) {
  const headers = {
    Authorization: `Bearer ${keys[key]}`,
    'X-Forwarded-For': client,
    'User-Agent': agentName,
    ...(user && { 'Content-Type': 'application/json' }),
  }
  return new Promise((done, fail) => {
    const sent = request(`${url}${path}`, { method, headers, agent }, response => {
      let text = ''
      response.setEncoding('utf8')
      response.on('data', chunk => {
        text += chunk
      })
      response.on('end', () => done({ status: response.statusCode, text }))
      response.on('error', fail)
    })
    sent.on('error', fail)
    sent.end(user && JSON.stringify({ user }))
  })
}

async function takePictures(url) {
  const browser = await chromium.launch({
    executablePath: process.env.CHROMIUM_PATH || '/usr/bin/chromium',
    args: ['--no-sandbox', '--disable-gpu'],
  })
  for (const colorScheme of ['light', 'dark']) {
    const viewport = { width: 1280, height: 972 }
    const page = await browser.newPage({ colorScheme, viewport, deviceScaleFactor: 1.5 })
    await page.goto(`${url}/`)
    await page.getByText('Live').waitFor()
    await page.locator('#charts canvas').first().waitFor()
    // Until it has polled a few times, and shows its latest numbers.
    await sleep(7000)
    const file = join(folder, `operator-page-${colorScheme}.png`)
    writeFileSync(file, shrinkPng(await page.screenshot()))
    await page.close()
  }
  await browser.close()
}
