import { spawnSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import parsers from '@stoplight/spectral-parsers'
import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import { temporaryFolder } from '../support/open-test-app.ts'
import { PROMETHEUS_FOLDER, writePrometheusFiles } from '../support/prometheus-server.ts'
import { canUsePrometheus } from '../support/prometheus-settings.ts'

const PROJECT = fileURLToPath(new URL('../..', import.meta.url))

const RULES = z.strictObject({
  groups: z.tuple([
    z.strictObject({
      name: z.literal('user-records'),
      rules: z.array(
        z.strictObject({
          alert: z.string().regex(/^UserRecords[A-Z]\w+$/),
          expr: z.string(),
          for: z
            .string()
            .regex(/^\d+[sm]$/)
            .optional(),
          labels: z.strictObject({ severity: z.enum(['critical', 'warning']) }),
          annotations: z.strictObject({
            summary: z.string().min(1),
            description: z.string().min(1),
            runbook_url: z.string().min(1),
          }),
        }),
      ),
    }),
  ]),
})

const RULE_TESTS = z.object({
  tests: z.array(
    z.object({
      alert_rule_test: z.array(
        z.object({ alertname: z.string(), exp_alerts: z.array(z.unknown()) }),
      ),
    }),
  ),
})

function readYaml(path: string): unknown {
  const { data, diagnostics } = parsers.Yaml.parse(readFileSync(path, 'utf8'))
  expect(diagnostics).toEqual([])
  return data
}

function runPromtool(...args: readonly string[]) {
  const { status, stdout, stderr } = spawnSync('promtool', args, { encoding: 'utf8' })
  return { status, printed: `${stdout}${stderr}` }
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

describe('deploy/prometheus/alerts.yml', () => {
  const { rules } = RULES.parse(readYaml(join(PROMETHEUS_FOLDER, 'alerts.yml'))).groups[0]

  test('leads from each alert to what to do, which names its threshold', () => {
    const guide = readFileSync(join(PROJECT, 'docs/operations.md'), 'utf8')
    for (const { alert, annotations } of rules) {
      const [page = '', anchor] = annotations.runbook_url.split('#')
      expect(existsSync(join(PROJECT, page)), page).toBe(true)
      expect(anchorsOf(guide)).toContain(anchor)
      expect(guide).toContain(`\`${alert}\``)
    }
  })

  test('looks only at the job of the shipped prometheus.yml', () => {
    const shipped = readFileSync(join(PROMETHEUS_FOLDER, 'prometheus.yml'), 'utf8')
    expect(shipped).toContain('job_name: user-records\n')
    for (const { alert, expr } of rules) {
      const selectors = expr.match(/[a-z_]+\{[^}]*\}/g) ?? []
      expect(selectors, alert).not.toEqual([])
      for (const selector of selectors) expect(selector).toContain('{job="user-records"')
    }
  })

  test('has tests in which each alert fires, and in which it does not', () => {
    const { tests } = RULE_TESTS.parse(readYaml(join(PROMETHEUS_FOLDER, 'alerts.test.yml')))
    const cases = tests.flatMap(({ alert_rule_test: those }) => those)
    const namesOf = (fires: boolean) =>
      new Set(
        cases
          .filter(({ exp_alerts: alerts }) => alerts.length > 0 === fires)
          .map(({ alertname }) => alertname),
      )
    const names = new Set(rules.map(({ alert }) => alert))
    expect(names.size).toBe(rules.length)
    expect(namesOf(true)).toEqual(names)
    expect(namesOf(false)).toEqual(names)
  })

  test.skipIf(!canUsePrometheus)('passes its tests, without a finding of promtool', () => {
    const checked = runPromtool(
      'check',
      'rules',
      '--lint=all',
      '--lint-fatal',
      join(PROMETHEUS_FOLDER, 'alerts.yml'),
    )
    expect(checked, checked.printed).toMatchObject({ status: 0 })
    const tested = runPromtool('test', 'rules', join(PROMETHEUS_FOLDER, 'alerts.test.yml'))
    expect(tested, tested.printed).toMatchObject({ status: 0 })
  })
})

describe.skipIf(!canUsePrometheus)('deploy/prometheus/prometheus.yml', () => {
  test('is right, and stays right for a target that is named', () => {
    const folder = temporaryFolder()
    const shipped = runPromtool(
      'check',
      'config',
      '--syntax-only',
      join(PROMETHEUS_FOLDER, 'prometheus.yml'),
    )
    expect(shipped, shipped.printed).toMatchObject({ status: 0 })
    writePrometheusFiles(folder, { address: '127.0.0.1:9464', token: 'a token' })
    const adapted = runPromtool('check', 'config', '--lint=all', join(folder, 'prometheus.yml'))
    expect(adapted, adapted.printed).toMatchObject({ status: 0 })
    expect(adapted.printed).toContain('1 rule files found')
  })
})
