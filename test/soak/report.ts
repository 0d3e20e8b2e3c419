import { availableParallelism, cpus } from 'node:os'
import type { Client } from './client.ts'
import type { Check } from './final-checks.ts'
import type { PlanResults } from './plan.ts'
import type { Problems } from './problems.ts'
import type { Site } from './site.ts'
import { sumOf, type Tally } from './tally.ts'

interface ReportParts extends PlanResults {
  readonly site: Site
  readonly startedAt: Date
  readonly minutes: number
  /** Requests a second. */
  readonly rate: number
  /** Number of actions that did not fit. */
  readonly leftOut: number
  readonly client: Client
  readonly checks: readonly Check[]
  readonly problems: Problems
}

/** The report as Markdown. */
export function report(parts: ReportParts): string {
  const { site, startedAt, minutes, rate, leftOut, client, checks, problems } = parts
  const failed = checks.filter(({ isFine }) => !isFine).length
  const verdict = failed === 0 ? 'Passed' : `**Failed**: ${failed} of ${checks.length} checks`
  const sections = [
    '# Soak',
    `${verdict}. ${startedAt.toISOString()}, ${minutes} minutes, ${sumOf(client.outcomes)} requests (${rate} a second planned, ${leftOut} actions left out), Node ${process.versions.node}, ${availableParallelism()} cores of ${cpus()[0]?.model ?? 'an unknown processor'}.`,
    'Two services, one PostgreSQL with a synchronous standby, one Redis, all on one machine with the clients.',
    '## Checks',
    table(
      ['check', 'result', 'figure'],
      checks.map(({ check, isFine, figure }) => [check, isFine ? 'ok' : '**failed**', figure]),
    ),
    '## What was done',
    table(
      ['at', 'step', 'result'],
      parts.results
        .filter(({ step }) => step !== 'sample')
        .map(({ at, step, result }) => [`${Math.round(at / 1000)} s`, step, result]),
    ),
    '## Services',
    table(
      ['at', 'service', 'pid', 'memory, MB', 'open files', 'connections to PostgreSQL'],
      parts.samples.flatMap(({ label, processes }) =>
        processes.map(({ name, pid, residentMb, files, connections }) => [
          ...[label, name, pid, residentMb, files, connections],
        ]),
      ),
    ),
    '## Warnings in the logs',
    table(
      ['service', 'message', 'number'],
      site.services.flatMap(({ name, warnings }) =>
        sorted(warnings).map(([message, count]) => [name, message, count]),
      ),
    ),
    '## Answers',
    table(['method, route and answer', 'number'], sorted(client.outcomes)),
  ]
  if (problems.count() > 0) sections.push('## Problems')
  for (const [kind, { count, examples }] of problems.byKind) {
    const shown = examples.map(example => `  - \`${example}\``)
    sections.push([`- ${kind}: ${count}`, ...shown].join('\n'))
  }
  return `${sections.join('\n\n')}\n`
}

function sorted(tally: Tally): [string, number][] {
  return [...tally].toSorted()
}

function table(heads: readonly string[], rows: readonly (readonly (string | number)[])[]): string {
  const line = (cells: readonly unknown[]) => `| ${cells.join(' | ').replace(/\s+/g, ' ')} |`
  return [heads, heads.map(() => '---'), ...rows].map(line).join('\n')
}
