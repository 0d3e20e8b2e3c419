import { spawn, spawnSync } from 'node:child_process'
import { copyFileSync, openSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { endWithTest } from '../support/clean-up-after.ts'
import { byEngine } from '../support/engine.ts'
import { findFreePort } from '../support/free-port.ts'
import { ask } from '../support/json-requests.ts'
import { temporaryFolder } from '../support/open-test-app.ts'
import { canUsePrometheus } from '../support/programs.ts'
import { PROJECT, readProject } from '../support/project.ts'
import { managementUrlOf } from '../support/service-pair.ts'
import { run, spawnService } from '../support/spawn-service.ts'
import { until } from '../support/until.ts'

const SHIPPED = join(PROJECT, 'deploy/prometheus')
const TOKEN = 'token-of-the-monitoring-tests'
const ODD_RULE = 'odd "quoted" \\ back\nline ü'

/** Metrics that the engine of this run does not have. */
const WITHOUT_DATA = byEngine({
  sqlite: ['storage_connections', 'storage_connections_waiting'],
  postgres: ['storage_bytes'],
})

interface Dashboard {
  readonly panels: readonly { readonly targets?: readonly { readonly expr: string }[] }[]
  readonly templating: { readonly list: readonly { readonly definition?: string }[] }
}

interface AlertRule {
  readonly name: string
  readonly query: string
  readonly health: string
  readonly annotations: Readonly<Record<string, string>>
}

describe.skipIf(!canUsePrometheus)('deploy/prometheus and deploy/grafana', () => {
  test.each([
    ['check', 'rules', '--lint=all', '--lint-fatal', 'alerts.yml'],
    ['test', 'rules', 'alerts.test.yml'],
    ['check', 'config', '--syntax-only', 'prometheus.yml'],
  ])('are without a finding of promtool %s %s', (...args) => {
    expect(promtool(SHIPPED, args)).toMatchObject({ status: 0 })
  })

  test('stay right for a target that is named', () => {
    const folder = temporaryFolder()
    writeFiles(folder, '127.0.0.1:9464')
    const checked = promtool(folder, ['check', 'config', '--lint=all', 'prometheus.yml'])
    expect(checked).toMatchObject({ status: 0, printed: expect.stringContaining('1 rule files') })
  })

  test('have data in a real Prometheus for each expression, and lead to a request and to what to do', async () => {
    const { service, use } = await openMonitoredService()
    const target = new URL(managementUrlOf(service)).host
    const askPrometheus = await startPrometheus(target)
    const query = async (expression: string) => {
      const { result } = (await askPrometheus('query', { query: expression })) as {
        result: { metric: Record<string, string>; value: [number, string] }[]
      }
      return result.map(({ metric, value }) => ({ metric, value: Number(value[1]) }))
    }
    const rules = await until(async () => {
      const { groups } = (await askPrometheus('rules')) as { groups: { rules: AlertRule[] }[] }
      const found = groups.flatMap(group => group.rules)
      return found.length > 0 && found.every(({ health }) => health !== 'unknown') && found
    })
    expect(rules.filter(({ health }) => health !== 'ok')).toEqual([])
    const guide = readProject('docs/operations/alerts.md')
    for (const { name, query: text, annotations } of rules) {
      const [, anchor = ''] = annotations.runbook_url?.split('docs/operations/alerts.md#') ?? []
      expect([name, anchorsOf(guide)]).toEqual([name, expect.arrayContaining([anchor])])
      expect(guide).toContain(`\`${name}\``)
      // Of no other service that the same Prometheus scrapes.
      for (const selector of selectorsOf(text)) expect(selector).toContain('job="user-records"')
    }

    const dashboard = readProject('deploy/grafana/user-records.json')
    const { panels, templating }: Dashboard = JSON.parse(dashboard)
    // As Grafana sends them for all instances.
    const ofPanels = panels
      .flatMap(({ targets = [] }) => targets)
      .map(({ expr }) => expr.replaceAll('$__rate_interval', '1m').replaceAll('$instance', '.*'))
    expect(ofPanels.length).toBeGreaterThanOrEqual(40)
    const ofAlerts = rules.flatMap(rule => selectorsOf(rule.query))
    let missing = [...ofPanels, ...ofAlerts].filter(
      expression => !WITHOUT_DATA.some(metric => expression.includes(`${metric}{`)),
    )
    await until(async () => {
      await use()
      const still: string[] = []
      for (const expression of missing) {
        const samples = await query(expression)
        if (!samples.some(({ value }) => Number.isFinite(value))) still.push(expression)
      }
      missing = still
      return missing.length === 0
    }, 300).catch(error => {
      throw new Error(`no data for:\n${missing.join('\n')}`, { cause: error })
    })
    for (const { definition } of templating.list) {
      const [, selector, label = ''] = /^label_values\((.*), (\w+)\)$/.exec(definition ?? '') ?? []
      if (selector === undefined) continue
      expect((await query(selector)).map(({ metric }) => metric[label])).toEqual([target])
    }
    const headers = { Authorization: `Bearer ${TOKEN}` }
    const plain = await (await fetch(`http://${target}/metrics`, { headers })).text()
    expect(promtool(SHIPPED, ['check', 'metrics'], plain)).toEqual({ status: 0, printed: '' })
    const odd = await query('limit_requests_counted_total{type="throttle"}')
    expect(odd.map(({ metric }) => metric.rule)).toEqual([ODD_RULE])
  })
})

function promtool(cwd: string, args: readonly string[], input = '') {
  const { status, stdout, stderr } = spawnSync('promtool', args, { cwd, input, encoding: 'utf8' })
  return { status, printed: `${stdout}${stderr}` }
}

/** The series that an expression selects, each of which may be absent without an error. */
function selectorsOf(expression: string): string[] {
  return expression.match(/[a-z_][a-z0-9_]*\{[^}]*\}/g) ?? []
}

/** The anchors of a document's headings, as GitHub makes them. */
function anchorsOf(markdown: string): string[] {
  return [...markdown.matchAll(/^#+ (.*)$/gm)].map(([, heading = '']) =>
    heading
      .toLowerCase()
      .replaceAll(/[^\w\- ]/g, '')
      .replaceAll(' ', '-'),
  )
}

/** Copies the shipped files, with another target, the token of it, and shorter intervals. */
function writeFiles(folder: string, address: string): void {
  const tokenPath = join(folder, 'management_token')
  writeFileSync(tokenPath, TOKEN)
  copyFileSync(join(SHIPPED, 'alerts.yml'), join(folder, 'alerts.yml'))
  const targets = `    static_configs:\n      - targets: ["${address}"]\n`
  const adapted = readFileSync(join(SHIPPED, 'prometheus.yml'), 'utf8')
    .replaceAll(/(scrape|evaluation)_interval: 15s/g, '$1_interval: 250ms')
    .replace('/run/secrets/management_token', tokenPath)
    .replace(/ {4}dns_sd_configs:\n(?: {6}.*\n)+/, targets)
  writeFileSync(join(folder, 'prometheus.yml'), adapted)
}

/** Starts Prometheus, which scrapes one target several times a second. Returns what asks a path of its API for `data`. */
async function startPrometheus(target: string) {
  const cwd = temporaryFolder()
  writeFiles(cwd, target)
  const host = `127.0.0.1:${await findFreePort()}`
  const options = ['--storage.tsdb.path=data']
  const args = ['--config.file=prometheus.yml', ...options, `--web.listen-address=${host}`]
  const log = join(cwd, 'prometheus.log')
  const server = spawn('prometheus', args, { cwd, stdio: ['ignore', 'ignore', openSync(log, 'w')] })
  endWithTest(server)
  await until(() => {
    if (server.exitCode !== null) throw new Error(readFileSync(log, 'utf8'))
    const ready = fetch(`http://${host}/-/ready`)
    return ready.then(
      ({ ok }) => ok,
      () => false,
    )
  })
  return async (path: string, parameters: Readonly<Record<string, string>> = {}) => {
    const response = await fetch(`http://${host}/api/v1/${path}?${new URLSearchParams(parameters)}`)
    const { status, data, error } = (await response.json()) as Record<string, unknown>
    if (status !== 'success') throw new Error(`${path} ${JSON.stringify(parameters)}: ${error}`)
    return data
  }
}

/** Each has an outcome in the metrics: a limit in force, one in dry run, and a ban. */
const LIMITS = {
  rateLimits: [{ name: 'verifications', to: 3, within: '1 day', only: ['verify'] }],
  throttle: [{ name: ODD_RULE, limit: 1, period: '1 day', dryRun: true }],
  bans: [
    {
      ...{ name: 'probing', path: '/wp-admin', by: 'header:user-agent', mode: 'fail2ban' },
      ...{ maxretry: 1, findtime: '1 day', bantime: '1 day' },
    },
  ],
}

/** The built service with everything that has metrics: limits, API keys, a webhook and the management port. */
async function openMonitoredService() {
  const cwd = temporaryFolder()
  writeFileSync(join(cwd, 'limits.json'), JSON.stringify(LIMITS))
  const scope = 'users:read,users:write,passwords:verify'
  const created = await run({ cwd, args: ['keys', 'create', '--name', 'me', '--scope', scope] })
  const args = ['webhooks', 'add', '--name', 'search', '--url', 'http://127.0.0.1:9/']
  expect(await run({ cwd, args })).toMatchObject({ code: 0 })
  const service = await spawnService({
    cwd,
    env: {
      ...{ LIMITS_FILE: 'limits.json', API_KEYS: 'required', MAX_WAITING_PASSWORDS: '100' },
      ...{ MANAGEMENT_PORT: '0', MANAGEMENT_TOKEN: TOKEN },
    },
  })
  await until(() => managementUrlOf(service) !== '')
  let users = 0

  async function send(line: string, user?: object, headers = {}) {
    const credentials = { Authorization: `Bearer ${created.stdout.trim()}` }
    await ask(service, line, user && { user }, { ...credentials, ...headers })
  }

  /** Sends requests that between them have every outcome. */
  async function use(): Promise<void> {
    const password = 'a long password'
    const newUser = () => ({ name: 'Ann', email: `user-${users++}@example.com`, password })
    const scanner = { 'User-Agent': 'a scanner' }
    const known = newUser()
    await send('GET /users')
    for (const line of ['GET /users/1', 'GET /nowhere']) await send(line)
    await send('POST /users', known)
    // More than may wait, so that some get 503.
    await Promise.all(Array.from({ length: 150 }, () => send('POST /users', newUser())))
    for (const given of [password, 'wrong']) {
      await send('POST /password-verifications', { email: known.email, password: given })
    }
    for (const line of ['GET /wp-admin', 'GET /users']) await send(line, undefined, scanner)
  }

  return { service, use }
}
