import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import type { ClusterFolder } from './cluster-folder.ts'
import { childrenOf, signalAll, untilEnded } from './process-tree.ts'

/** The running server of a cluster: its first process, and those that it starts for its connections. */
export interface Postmaster {
  /** Ends it, also while it is frozen. */
  stop(mode: 'fast' | 'immediate'): Promise<void>
  /** What it had in shared memory stays until it is started again, or the machine is. */
  kill(): Promise<void>
  freeze(): void
  thaw(): void
}

export interface PostmasterOptions {
  readonly port: number
  /** Variables of the server's environment. */
  readonly environment?: Readonly<Record<string, string>> | undefined
}

const STOP_SIGNALS = { fast: 'SIGINT', immediate: 'SIGQUIT' } as const

const READY = /database system is ready to accept/

/** Starts the server of a cluster and waits until it accepts connections. Throws what it logged if it does not. */
export async function startPostmaster(
  folder: ClusterFolder,
  { port, environment }: PostmasterOptions,
): Promise<Postmaster> {
  const address = ['-h', '127.0.0.1', '-p', String(port), '-k', folder.path]
  const child = folder.spawn('postgres', ['-D', folder.data, ...address], environment)
  const exited = once(child, 'exit')
  await untilReady(child)
  const id = child.pid as number
  const isRunning = () => child.exitCode === null && child.signalCode === null
  const thaw = () => signalAll([...childrenOf(id), id], 'SIGCONT')
  return {
    stop: async mode => {
      if (isRunning()) {
        process.kill(id, STOP_SIGNALS[mode])
        thaw()
      }
      await exited
    },
    kill: async () => {
      if (!isRunning()) return
      // Then it starts no more processes.
      process.kill(id, 'SIGSTOP')
      const all = [id, ...childrenOf(id)]
      signalAll(all, 'SIGKILL')
      await exited
      await untilEnded(all)
      // It names a process that another one may be called soon.
      rmSync(join(folder.data, 'postmaster.pid'), { force: true })
    },
    freeze: () => {
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
