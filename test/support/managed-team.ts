import type { SpawnOptions } from './spawn-service.ts'
import { spawnTeam, type Team } from './spawn-team.ts'

/** A sample of a metric. */
export interface Sample {
  readonly name: string
  readonly labels: Readonly<Record<string, string>>
  readonly value: number
}

export interface ManagedTeam extends Team {
  /** A request to the management port. */
  ask(path: string, init?: RequestInit): Promise<Response>
  /** The metrics, read from it. */
  samples(): Promise<readonly Sample[]>
}

/** Starts the built service with two workers and a management port. */
export async function spawnManagedTeam(options: SpawnOptions): Promise<ManagedTeam> {
  const team = await spawnTeam(2, { ...options, env: { MANAGEMENT_PORT: '0', ...options.env } })
  const [line] = await team.untilLogged('management port listens')
  const url = String(line?.url)
  const ask = (path: string, init?: RequestInit) => fetch(`${url}${path}`, init)
  return {
    ...team,
    ask,
    samples: async () => samplesIn(await (await ask('/metrics')).text()),
  }
}

/** The sum of the samples with these labels; `undefined` without any. */
export function sumOf(
  samples: readonly Sample[],
  name: string,
  labels: Sample['labels'] = {},
): number | undefined {
  const found = samples.filter(
    sample =>
      sample.name === name &&
      Object.entries(labels).every(([label, value]) => sample.labels[label] === value),
  )
  return found.length === 0 ? undefined : found.reduce((sum, { value }) => sum + value, 0)
}

function samplesIn(text: string): readonly Sample[] {
  return text.split('\n').flatMap(line => {
    const [, name, labels = '', value] = /^(\w+)(?:\{(.*?)\})? (\S+)$/.exec(line) ?? []
    if (name === undefined) return []
    const pairs = [...labels.matchAll(/(\w+)="(.*?)"(?:,|$)/g)].map(match => match.slice(1))
    return [{ name, labels: Object.fromEntries(pairs), value: Number(value) }]
  })
}
