import { useState } from 'preact/hooks'
import type { Actions } from './panel.tsx'
import { useUnsaved } from './unsaved.ts'
import { createUsers, type UserFields } from './users-service.ts'

/** As many as the service takes in one request. */
const MAX_USERS = 100

/** Creates many users from lines with a name and an address each, as spreadsheets and mail programs copy them. */
export function UserPaste({ explain, notify }: Actions) {
  const [text, setText] = useState('')
  const [faults, setFaults] = useState<readonly string[]>([])
  const [isBusy, setIsBusy] = useState(false)

  useUnsaved(text !== '')

  async function create(): Promise<void> {
    const lines = text.split('\n').filter(line => line.trim() !== '')
    const refused: string[] = []
    const found: string[] = []
    let done = 0
    setIsBusy(true)
    try {
      while (done < lines.length) {
        const batch = lines.slice(done, done + MAX_USERS)
        for (const [index, entry] of (await createUsers(batch.map(userIn))).entries()) {
          if (entry.status === 201) continue
          const line = batch[index] as string
          const what = Object.entries(entry.errors).map(
            ([field, all]) => `${field} ${all.join(', ')}`,
          )
          refused.push(line)
          found.push(`${line.trim()}: ${what.join('; ')}`)
        }
        done += batch.length
      }
    } catch (error) {
      found.push(explain(error).message)
    }
    const created = done - refused.length
    setIsBusy(false)
    setFaults(found)
    // What was not created stays, to be mended.
    setText([...refused, ...lines.slice(done)].join('\n'))
    notify(`Created ${created === 1 ? '1 user' : `${created} users`}.`)
  }

  return (
    <form
      class="stack"
      onSubmit={event => {
        event.preventDefault()
        if (!isBusy) void create()
      }}
    >
      <label>
        Or paste several: a name and an address on each line
        <textarea
          id="user-paste"
          rows={5}
          required
          readOnly={isBusy}
          spellcheck={false}
          aria-describedby="user-paste-faults"
          value={text}
          onInput={({ currentTarget }) => setText(currentTarget.value)}
        />
      </label>
      <ul class="bad" id="user-paste-faults" role="alert">
        {faults.map(fault => (
          <li key={fault}>{fault}</li>
        ))}
      </ul>
      <div class="fields">
        <button type="submit">Create them</button>
      </div>
    </form>
  )
}

/** Such as `Cid Lee <cid@example.com>`, `cid@example.com, Cid Lee`, or two cells of a spreadsheet. */
function userIn(line: string): UserFields {
  const email = /[^\s<>,;"]+@[^\s<>,;"]+/.exec(line)?.[0] ?? ''
  return { email, name: line.replace(email, '').replaceAll(/[<>"]|^[\s,;]+|[\s,;]+$/g, '') }
}
