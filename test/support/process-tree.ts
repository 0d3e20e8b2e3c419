import { spawnSync } from 'node:child_process'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'

/** The ids of the direct children of a process. */
export function childrenOf(parent: number): number[] {
  return processes()
    .filter(({ parentId, isEnded }) => parentId === parent && !isEnded)
    .map(({ id }) => id)
}

/** Sends a signal to those of the processes that still run. */
export function signalAll(ids: readonly number[], signal: NodeJS.Signals): void {
  for (const id of ids) {
    try {
      process.kill(id, signal)
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error
    }
  }
}

/** Waits until none of the processes runs. */
export async function untilEnded(ids: readonly number[]): Promise<void> {
  while (processes().some(({ id, isEnded }) => ids.includes(id) && !isEnded)) await sleep(5)
}

interface RunningProcess {
  readonly id: number
  readonly parentId: number
  /** Whether only its exit code is left of it. */
  readonly isEnded: boolean
}

function processes(): RunningProcess[] {
  return existsSync('/proc/self/stat') ? readProc() : askPs()
}

function readProc(): RunningProcess[] {
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

function askPs(): RunningProcess[] {
  const { stdout } = spawnSync('ps', ['-A', '-o', 'pid=,ppid=,stat='], { encoding: 'utf8' })
  return stdout.split('\n').map(line => {
    const [id, parentId, state = ''] = line.trim().split(/ +/)
    return { id: Number(id), parentId: Number(parentId), isEnded: state.startsWith('Z') }
  })
}
