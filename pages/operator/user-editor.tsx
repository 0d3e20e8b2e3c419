import { useLayoutEffect, useRef, useState } from 'preact/hooks'
import { formatMoment, formatSpan } from './format.ts'
import { Facts } from './panel.tsx'
import { useUnsaved } from './unsaved.ts'
import { type UsersPart, useStoredUser } from './use-stored-user.ts'
import { generatePassword, UserForm } from './user-form.tsx'
import { UserPaste } from './user-paste.tsx'
import {
  deleteUser,
  type StoredUser,
  saveUser,
  type User,
  type UserFields,
} from './users-service.ts'

/** A password for an item, until somebody has copied it. */
export interface Generated {
  readonly item: string
  readonly password: string
}

export interface UserEditorProps extends UsersPart {
  readonly generated: Generated | undefined
  readonly onGenerate: (generated: Generated | undefined) => void
  /** Called before a deleted user is closed. */
  readonly onDeleted: () => void
}

/** One user to correct or delete, or a new one to create. */
export function UserEditor({ generated, onGenerate, onDeleted, ...part }: UserEditorProps) {
  const { item, actions, now } = part
  const [draft, setDraft] = useState<UserFields>({})
  const isEdited = Object.keys(draft).length > 0
  const { stored, problem, isBusy, attempt, forgetProblem } = useStoredUser(part, isEdited)
  const title = useRef<HTMLHeadingElement>(null)
  const code = useRef<HTMLElement>(null)
  const errors = problem?.errors ?? {}
  const isGone = problem?.kind === 'gone'
  useUnsaved(isEdited && !isGone)

  useLayoutEffect(() => title.current?.focus(), [])
  useLayoutEffect(() => {
    const wrong = problem?.kind === 'conflict' ? 'conflict' : Object.keys(errors)[0]
    document.getElementById(`user-${wrong}`)?.focus()
  }, [problem])

  const save = () =>
    attempt(async () => {
      const saved = await saveUser(stored, draft)
      setDraft({})
      actions.notify(`${stored === undefined ? 'Created' : 'Saved'}: ${nameOf(saved)}.`)
      if (stored === undefined) {
        if (generated?.item === item) onGenerate({ ...generated, item: `${saved.id}` })
        location.replace(`#users/${saved.id}`)
      }
      return saved
    })

  const removePassword = (user: StoredUser) => {
    const question = `Remove the password of ${nameOf(user)}? Nobody can log in with it any more.`
    if (!window.confirm(question)) return
    void attempt(async () => {
      const saved = await saveUser(user, { password: null })
      onGenerate(undefined)
      actions.notify(`Removed the password of ${nameOf(saved)}.`)
      return saved
    })
  }

  const remove = (user: StoredUser) => {
    if (!window.confirm(`Delete ${nameOf(user)}? This cannot be undone.`)) return
    void attempt(async () => {
      await deleteUser(user)
      setDraft({})
      actions.notify(`Deleted: ${nameOf(user)}.`)
      onDeleted()
      location.replace('#users')
      return user
    })
  }

  async function copy(password: string): Promise<void> {
    try {
      await navigator.clipboard.writeText(password)
      onGenerate(undefined)
      actions.notify('Copied. The password is not shown again.')
      title.current?.focus()
    } catch {
      // A page without TLS has no clipboard.
      getSelection()?.selectAllChildren(code.current as HTMLElement)
      actions.notify('Copy the selected password with Ctrl+C or ⌘C.')
    }
  }

  function edit(next: UserFields): void {
    setDraft(next)
    if (next.password !== draft.password) onGenerate(undefined)
  }

  function discard(): void {
    edit({})
    forgetProblem()
    title.current?.focus()
  }

  const isAbsent = isGone || (item !== 'new' && stored === undefined)
  const gone = stored ? `${nameOf(stored)} has been deleted.` : `There is no user ${item}.`
  return (
    <section class="panel stack" id="user" aria-labelledby="user-title">
      <div class="fields">
        <h2 id="user-title" tabIndex={-1} ref={title}>
          {item === 'new' ? 'New user' : `User ${item}`}
        </h2>
        <a href="#users">Close</a>
      </div>
      {isAbsent && <p role="status">{isGone ? gone : (errors['']?.[0] ?? 'Loading…')}</p>}
      {problem?.kind === 'conflict' && stored !== undefined && (
        <div class="notice stack" id="user-conflict" role="alert" tabIndex={-1}>
          <p class="bad">Somebody else has changed this user meanwhile. Nothing was saved.</p>
          <p>
            Now it is <strong>{stored.name}</strong>, <strong>{stored.email}</strong>.
            {isEdited && ' What you entered is below.'}
          </p>
          <div class="fields">
            {isEdited && (
              <button type="button" onClick={save}>
                Save what I entered
              </button>
            )}
            <button type="button" onClick={discard}>
              Keep what is there now
            </button>
          </div>
        </div>
      )}
      {!isAbsent && (
        <UserForm
          {...{ user: stored, draft, errors, isBusy, onEdit: edit, onSave: save }}
          onGenerate={() => {
            const password = generatePassword()
            onGenerate({ item, password })
            setDraft({ ...draft, password })
          }}
        />
      )}
      {!isAbsent && generated?.item === item && (
        <div class="notice stack" role="status">
          <p>
            {draft.password === undefined ? 'The new password' : 'Not saved yet'}:{' '}
            <code ref={code}>{generated.password}</code>
          </p>
          <button type="button" onClick={() => copy(generated.password)}>
            Copy and hide it
          </button>
        </div>
      )}
      {item === 'new' && <UserPaste {...actions} />}
      {!isAbsent && stored !== undefined && (
        <>
          <Facts
            id="user-facts"
            facts={[
              ['Id', `${stored.id}`],
              ['Created', momentOf(stored.created_at, now)],
              ['Updated', momentOf(stored.updated_at, now)],
            ]}
          />
          <div class="fields">
            <button type="button" onClick={() => removePassword(stored)}>
              Remove the password…
            </button>
            <button type="button" class="bad" onClick={() => remove(stored)}>
              Delete the user…
            </button>
          </div>
        </>
      )}
    </section>
  )
}

function nameOf({ id, name, email }: User): string {
  return `${name} (${email}, id ${id})`
}

function momentOf(at: string, now: number): string {
  return `${formatMoment(at)} (${formatSpan(now - Date.parse(at))} ago)`
}
