import { type ChildProcess, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { ClusterFolder } from './postgres-cluster.ts'

export interface PostmasterOptions {
  readonly port: number
  /** Variables of the server's environment. */
  readonly environment?: Readonly<Record<string, string>> | undefined
}

const STOP_SIGNALS = { fast: 'SIGINT', immediate: 'SIGQUIT' } as const

const READY = /database system is ready to accept/

/**
 * Starts the server of a cluster, its first process and those that it starts for its connections, and waits until it accepts
 * connections. Throws what it logged if it does not.
 */
export async function startPostmaster(
  folder: ClusterFolder,
  { port, environment }: PostmasterOptions,
) {
  const address = ['-h', '127.0.0.1', '-p', String(port), '-k', folder.path]
  const child = folder.spawn('postgres', ['-D', folder.data, ...address], environment)
  const exited = once(child, 'exit')
  await untilReady(child)
  const id = child.pid as number
  const isRunning = () => child.exitCode === null && child.signalCode === null
  const thaw = () => signalAll([...childrenOf(id), id], 'SIGCONT')
  return {
    /** Ends it, also while it is frozen. */
    stop: async (mode: 'fast' | 'immediate'): Promise<void> => {
      if (isRunning()) {
        process.kill(id, STOP_SIGNALS[mode])
        thaw()
      }
      await exited
    },
    /** What it had in shared memory stays until it is started again, or the machine is. */
    kill: async (): Promise<void> => {
      if (!isRunning()) return
      // Then it starts no more processes.
      process.kill(id, 'SIGSTOP')
      const all = [id, ...childrenOf(id)]
      signalAll(all, 'SIGKILL')
      await exited
      while (processes().some(({ id, isEnded }) => all.includes(id) && !isEnded)) await sleep(5)
      // It names a process that another one may be called soon.
      rmSync(join(folder.data, 'postmaster.pid'), { force: true })
    },
    freeze: (): void => {
      process.kill(id, 'SIGSTOP')
      signalAll(childrenOf(id), 'SIGSTOP')
    },
    thaw,
  }
}

function untilReady(child: ChildProcess): Promise<void> {
  return new Promise((resolve, reject) => {
    let log = ''
    child.on('error', reject)
    child.on('exit', code => reject(new Error(`postgres ended with ${code}: ${log}`)))
    child.stderr?.setEncoding('utf8').on('data', (text: string) => {
      log = (log + text).slice(-50_000)
      if (READY.test(log)) resolve()
    })
  })
}

/** The ids of the direct children of a process. */
function childrenOf(parent: number): number[] {
  return processes()
    .filter(({ parentId, isEnded }) => parentId === parent && !isEnded)
    .map(({ id }) => id)
}

/** Sends a signal to those of the processes that still run. */
function signalAll(ids: readonly number[], signal: NodeJS.Signals): void {
  for (const id of ids) {
    try {
      process.kill(id, signal)
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error
    }
  }
}

/** All processes. Of one that `isEnded` only its exit code is left. */
function processes(): { id: number; parentId: number; isEnded: boolean }[] {
  return existsSync('/proc/self/stat') ? readProc() : askPs()
}

function readProc() {
  return readdirSync('/proc')
    .filter(name => Number(name) > 0)
    .flatMap(name => {
      try {
        const stat = readFileSync(`/proc/${name}/stat`, 'latin1')
        // The name in parentheses may contain anything.
        const [state = '', parentId] = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
        return [{ id: Number(name), parentId: Number(parentId), isEnded: 'ZX'.includes(state) }]
      } catch {
        // It ended meanwhile.
        return []
      }
    })
}

function askPs() {
  const { stdout } = spawnSync('ps', ['-A', '-o', 'pid=,ppid=,stat='], { encoding: 'utf8' })
  return stdout.split('\n').map(line => {
    const [id, parentId, state = ''] = line.trim().split(/ +/)
    return { id: Number(id), parentId: Number(parentId), isEnded: state.startsWith('Z') }
  })
}
