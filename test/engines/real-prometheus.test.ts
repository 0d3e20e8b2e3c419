import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import parsers from '@stoplight/spectral-parsers'
import { expect, test } from 'vitest'
import { z } from 'zod'
import { byEngine } from '../support/engine.ts'
import { openMonitoredService } from '../support/monitored-service.ts'
import {
  PROMETHEUS_FOLDER,
  type PrometheusServer,
  startPrometheus,
} from '../support/prometheus-server.ts'
import { canUsePrometheus } from '../support/prometheus-settings.ts'
import { until } from '../support/until.ts'

const PROJECT = fileURLToPath(new URL('../..', import.meta.url))

/** Metrics that the engine of this run does not have. */
const WITHOUT_DATA = byEngine({
  sqlite: ['storage_connections', 'storage_connections_waiting'],
  postgres: ['storage_bytes'],
})

const TARGET = z.strictObject({
  refId: z.string(),
  expr: z.string(),
  legendFormat: z.string().optional(),
  exemplar: z.literal(true).optional(),
})

const DASHBOARD = z.object({
  uid: z.literal('user-records'),
  schemaVersion: z.int(),
  panels: z.array(
    z
      .object({
        id: z.int(),
        // Those of Grafana itself.
        type: z.enum(['row', 'timeseries', 'stat']),
        title: z.string().min(1),
        gridPos: z.strictObject({ x: z.int(), y: z.int(), w: z.int(), h: z.int() }),
        description: z.string().min(1).optional(),
        datasource: z
          .strictObject({ type: z.literal('prometheus'), uid: z.literal('${' + 'datasource}') })
          .optional(),
        targets: z.array(TARGET).min(1).optional(),
      })
      .loose(),
  ),
  templating: z.object({
    list: z.array(z.object({ name: z.string(), definition: z.string().optional() }).loose()),
  }),
})

const dashboard = DASHBOARD.parse(
  JSON.parse(readFileSync(join(PROJECT, 'deploy/grafana/user-records.json'), 'utf8')),
)

/** The expressions of the dashboard, as Grafana sends them for all instances. */
const panelExpressions = dashboard.panels
  .flatMap(({ targets = [] }) => targets)
  .map(({ expr }) => expr.replaceAll('$__rate_interval', '1m').replaceAll('$instance', '.*'))

const alertExpressions = z
  .object({ groups: z.tuple([z.object({ rules: z.array(z.object({ expr: z.string() })) })]) })
  .parse(parsers.Yaml.parse(readFileSync(join(PROMETHEUS_FOLDER, 'alerts.yml'), 'utf8')).data)
  .groups[0].rules.map(({ expr }) => expr)

/** The series that an expression selects, each of which may be absent without an error. */
function selectorsOf(expression: string): string[] {
  return expression.match(/[a-z_][a-z0-9_]*\{[^}]*\}/g) ?? []
}

function hasData(expression: string): boolean {
  return !WITHOUT_DATA.some(metric => expression.includes(`${metric}{`))
}

test('deploy/grafana/user-records.json has no panel twice, without a description, or over another', () => {
  const { panels } = dashboard
  expect(new Set(panels.map(({ id }) => id)).size).toBe(panels.length)
  expect(new Set(panels.map(({ title }) => title)).size).toBe(panels.length)
  for (const { type, description, datasource } of panels) {
    if (type !== 'row') expect([description, datasource]).not.toContain(undefined)
  }
  const cells = panels.flatMap(({ gridPos: { x, y, w, h } }) =>
    Array.from({ length: w * h }, (_, index) => `${x + (index % w)},${y + Math.floor(index / w)}`),
  )
  expect(new Set(cells).size).toBe(cells.length)
  expect(Math.max(...panels.map(({ gridPos: { x, w } }) => x + w))).toBe(24)
})

test('the dashboard and the alerts have only metrics that docs/operations.md has, or that Prometheus makes', () => {
  const guide = readFileSync(join(PROJECT, 'docs/operations.md'), 'utf8')
  const selectors = [...panelExpressions, ...alertExpressions].flatMap(selectorsOf)
  const names = new Set(
    selectors.map(selector => selector.replace(/(?:_(?:bucket|sum|count))?\{.*$/s, '')),
  )
  names.delete('up')
  expect(names.size).toBeGreaterThan(20)
  for (const name of names) expect(guide).toContain(`| \`${name}\` |`)
})

test.skipIf(!canUsePrometheus)(
  'a real Prometheus has data for each expression of the dashboard and the alerts, and leads to a request',
  async () => {
    const monitored = await openMonitoredService()
    const prometheus = await startPrometheus(monitored)
    const traceId = '4bf92f3577b34da6a3ce929d0e0e4736'

    const expected = [...panelExpressions, ...alertExpressions.flatMap(selectorsOf)].filter(hasData)
    expect(panelExpressions.length).toBeGreaterThanOrEqual(40)
    let missing: readonly string[] = expected
    await until(async () => {
      await monitored.use(traceId)
      missing = await withoutData(prometheus, missing)
      return missing.length === 0
    }, 300).catch(error => {
      throw new Error(`no data for:\n${missing.join('\n')}`, { cause: error })
    })

    for (const { definition } of dashboard.templating.list) {
      const [, selector, label = ''] = /^label_values\((.*), (\w+)\)$/.exec(definition ?? '') ?? []
      if (selector === undefined) continue
      const series = await prometheus.query(selector)
      expect(series.map(({ metric }) => metric[label])).toEqual([monitored.address])
    }

    await expectRulesToWork(prometheus)

    const exemplars = JSON.stringify(
      await prometheus.ask('query_exemplars', {
        query: 'http_request_duration_seconds_bucket',
        start: `${Date.now() / 1000 - 3600}`,
        end: `${Date.now() / 1000 + 3600}`,
      }),
    )
    expect(exemplars).toContain(`"trace_id":"${traceId}"`)
    const line = await until(() => findLine(monitored.service.stdout(), traceId))
    expect(JSON.parse(line)).toMatchObject({ trace_id: traceId, route: '/users' })
  },
)

/** The first complete line of a log with a text. */
function findLine(log: string, text: string): string | undefined {
  return log
    .split('\n')
    .slice(0, -1)
    .find(line => line.includes(text))
}

/** Those of the expressions that give no number now. */
async function withoutData(
  prometheus: PrometheusServer,
  expressions: readonly string[],
): Promise<readonly string[]> {
  const missing: string[] = []
  for (const expression of expressions) {
    const samples = await prometheus.query(expression)
    if (!samples.some(({ value }) => Number.isFinite(value))) missing.push(expression)
  }
  return missing
}

/** Every rule has been evaluated, without an error. */
async function expectRulesToWork(prometheus: PrometheusServer): Promise<void> {
  const rules = await until(async () => {
    const { groups } = (await prometheus.ask('rules')) as {
      groups: { rules: { name: string; health: string; lastError?: string }[] }[]
    }
    const found = groups.flatMap(group => group.rules)
    return found.every(({ health }) => health !== 'unknown') && found
  })
  expect(rules).toHaveLength(alertExpressions.length)
  expect(rules.filter(({ health }) => health !== 'ok')).toEqual([])
}
