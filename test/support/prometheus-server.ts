import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { copyFileSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { onTestFinished } from 'vitest'
import { findFreePort } from './free-port.ts'
import { temporaryFolder } from './open-test-app.ts'
import { until } from './until.ts'

/** What deploy/prometheus has for operators. */
export const PROMETHEUS_FOLDER = fileURLToPath(new URL('../../deploy/prometheus', import.meta.url))

export interface ScrapeTarget {
  /** Host and port of a management port. */
  readonly address: string
  readonly token: string
}

/** A series that an expression gives, with its value now. */
export interface PrometheusSample {
  readonly metric: Readonly<Record<string, string>>
  readonly value: number
}

/** A Prometheus server of the test's own, on 127.0.0.1. */
export interface PrometheusServer {
  query(expression: string): Promise<readonly PrometheusSample[]>
  /** The `data` of a path of its API. */
  ask(path: string, parameters?: Readonly<Record<string, string>>): Promise<unknown>
}

/** Ends the server when its own input ends, which is when the process of the tests ends. */
const RUN = `
  exec 3<&0
  prometheus "$@" > prometheus.log 2>&1 &
  id=$!
  (cat <&3 > /dev/null; kill -KILL $id 2> /dev/null) > /dev/null &
  wait $id`

/** Starts Prometheus with the files of `deploy/prometheus`, which then scrapes one target several times a second. */
export async function startPrometheus(target: ScrapeTarget): Promise<PrometheusServer> {
  const folder = temporaryFolder()
  writePrometheusFiles(folder, target)
  const url = await startSomewhere(folder)

  async function ask(path: string, parameters: Readonly<Record<string, string>> = {}) {
    const response = await fetch(`${url}/api/v1/${path}?${new URLSearchParams(parameters)}`)
    const { status, data, error } = (await response.json()) as Record<string, unknown>
    if (status !== 'success') throw new Error(`${path} ${JSON.stringify(parameters)}: ${error}`)
    return data
  }

  return {
    ask,
    query: async query => {
      const { result } = (await ask('query', { query })) as {
        result: { metric: Record<string, string>; value: [number, string] }[]
      }
      return result.map(({ metric, value }) => ({ metric, value: Number(value[1]) }))
    },
  }
}

/** Copies the files of `deploy/prometheus`, with another target, the token of it, and shorter intervals. */
export function writePrometheusFiles(folder: string, { address, token }: ScrapeTarget): void {
  const tokenPath = join(folder, 'management_token')
  writeFileSync(tokenPath, token)
  copyFileSync(join(PROMETHEUS_FOLDER, 'alerts.yml'), join(folder, 'alerts.yml'))
  const shipped = readFileSync(join(PROMETHEUS_FOLDER, 'prometheus.yml'), 'utf8')
  const adapted = shipped
    .replaceAll(/(scrape|evaluation)_interval: 15s/g, '$1_interval: 250ms')
    .replace('/run/secrets/management_token', tokenPath)
    .replace(
      / {4}dns_sd_configs:\n(?: {6}.*\n)+/,
      `    static_configs:\n      - targets: ["${address}"]\n`,
    )
  writeFileSync(join(folder, 'prometheus.yml'), adapted)
}

/** Returns the URL on which the server is ready. */
async function startSomewhere(folder: string): Promise<string> {
  for (;;) {
    const port = await findFreePort()
    const shell = spawn(
      'sh',
      [
        '-c',
        RUN,
        'sh',
        '--config.file=prometheus.yml',
        '--storage.tsdb.path=data',
        `--web.listen-address=127.0.0.1:${port}`,
        '--enable-feature=exemplar-storage',
        '--log.level=warn',
      ],
      { cwd: folder, stdio: ['pipe', 'ignore', 'ignore'], detached: true },
    )
    onTestFinished(() => endOf(shell))
    const url = `http://127.0.0.1:${port}`
    const state = await until(async () => {
      if (shell.exitCode !== null) return 'ended'
      const isReady = await fetch(`${url}/-/ready`).then(
        ({ ok }) => ok,
        () => false,
      )
      return isReady && 'ready'
    })
    if (state === 'ready') return url
    const log = readFileSync(join(folder, 'prometheus.log'), 'utf8')
    // Another program may have taken the port.
    if (!log.includes('address already in use')) throw new Error(log)
  }
}

async function endOf(shell: ChildProcess): Promise<void> {
  shell.stdin?.end()
  if (shell.exitCode === null) await once(shell, 'exit')
}
