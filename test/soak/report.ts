import { availableParallelism, cpus } from 'node:os'
import type { Client } from './client.ts'
import type { Check } from './final-checks.ts'
import type { Load } from './load.ts'
import type { PlanResults } from './plan.ts'
import type { Problems } from './problems.ts'
import type { Site } from './site.ts'
import { sumOf } from './tally.ts'

export interface ReportParts {
  readonly site: Site
  readonly startedAt: Date
  readonly minutes: number
  readonly rate: number
  readonly load: Load
  readonly client: Client
  readonly plan: PlanResults
  readonly checks: readonly Check[]
  readonly problems: Problems
}

/** The report as Markdown. */
export function report(parts: ReportParts): string {
  const { site, startedAt, minutes, rate, load, client, plan, checks, problems } = parts
  const failed = checks.filter(({ isFine }) => !isFine).length
  const requests = sumOf(client.outcomes)
  const lines = [
    '# Soak',
    '',
    `${failed === 0 ? 'Passed' : `**Failed**: ${failed} of ${checks.length} checks`}. ${startedAt.toISOString()}, ${minutes} minutes, ${requests} requests (${rate} a second planned, ${load.leftOut()} actions left out), Node ${process.versions.node}, ${availableParallelism()} cores of ${cpus()[0]?.model ?? 'an unknown processor'}.`,
    '',
    'Two services, one PostgreSQL with a synchronous standby, one Redis, all on one machine with the clients.',
    '',
    '## Checks',
    '',
    ...table(
      ['check', 'result', 'figure'],
      checks.map(({ check, isFine, figure }) => [check, isFine ? 'ok' : '**failed**', figure]),
    ),
    '',
    '## What was done',
    '',
    ...table(
      ['at', 'step', 'result'],
      plan.results
        .filter(({ step }) => step !== 'sample')
        .map(({ at, step, result }) => [`${Math.round(at / 1000)} s`, step, result]),
    ),
    '',
    '## Processes',
    '',
    ...table(
      ['at', 'process', 'pid', 'memory, MB', 'open files'],
      plan.samples.flatMap(({ label, processes }) =>
        processes.map(({ process: name, pid, residentMb, files }) => [
          ...[label, name, String(pid), String(residentMb), String(files)],
        ]),
      ),
    ),
    '',
    ...table(
      ['at', 'connections to PostgreSQL'],
      plan.samples.map(({ label, connections }) => [
        label,
        Object.entries(connections)
          .map(([name, count]) => `${name}: ${count}`)
          .join(', '),
      ]),
    ),
    '',
    '## Warnings in the logs',
    '',
    ...table(
      ['service', 'message', 'number'],
      site.services.flatMap(({ name, warnings }) =>
        [...warnings].toSorted().map(([message, count]) => [name, message, String(count)]),
      ),
    ),
    '',
    '## Answers',
    '',
    ...table(
      ['request', 'answer', 'number'],
      [...client.outcomes].toSorted().map(([name, count]) => {
        const [method, route, ...answer] = name.split(' ')
        return [`${method} ${route || '(no route)'}`, answer.join(' '), String(count)]
      }),
    ),
  ]
  if (problems.count() > 0) {
    lines.push('', '## Problems', '')
    for (const { kind, count, examples } of problems.list()) {
      lines.push(`- ${kind}: ${count}`, ...examples.map(example => `  - \`${example}\``))
    }
  }
  return `${lines.join('\n')}\n`
}

function table(heads: readonly string[], rows: readonly (readonly string[])[]): string[] {
  const line = (cells: readonly string[]) => `| ${cells.join(' | ').replace(/\s+/g, ' ')} |`
  return [line(heads), line(heads.map(() => '---')), ...rows.map(line)]
}
