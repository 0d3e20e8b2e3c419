import { useLayoutEffect, useRef } from 'preact/hooks'
import type { User, UserFields } from './users-service.ts'

export interface ConflictProps {
  /** As it is stored now. */
  readonly user: User
  readonly draft: UserFields
  readonly onSave: () => void
  readonly onDiscard: () => void
}

/** Says what somebody else has changed, and lets the reader decide. */
export function Conflict({ user, draft, onSave, onDiscard }: ConflictProps) {
  const notice = useRef<HTMLDivElement>(null)
  useLayoutEffect(() => notice.current?.focus(), [])
  const { name, email, password } = draft
  return (
    <div class="notice" id="conflict" role="alert" tabIndex={-1} ref={notice}>
      <p class="bad">Somebody else has changed this user meanwhile. Nothing was saved.</p>
      {name !== undefined && <Versions label="Name" now={user.name} yours={name} />}
      {email !== undefined && <Versions label="E-mail" now={user.email} yours={email} />}
      {password !== undefined && <p>Your new password is not set yet.</p>}
      {Object.keys(draft).length === 0 && (
        <p>Below is what is there now. Try again if it is right.</p>
      )}
      <div class="fields">
        {Object.keys(draft).length > 0 && (
          <button type="button" onClick={onSave}>
            Save mine all the same
          </button>
        )}
        <button type="button" onClick={onDiscard}>
          Keep what is there now
        </button>
      </div>
    </div>
  )
}

function Versions({ label, now, yours }: Readonly<Record<'label' | 'now' | 'yours', string>>) {
  return (
    <p>
      {label} is now <strong>{now}</strong>. Yours: <strong>{yours}</strong>
    </p>
  )
}

/** A password that was generated and set, until somebody has copied it. */
export interface HandOver {
  readonly id: number
  readonly password: string
}

export interface NewPasswordProps {
  readonly password: string
  readonly onCopied: () => void
  readonly notify: (text: string) => void
}

/** The only time that a password is shown. */
export function NewPassword({ password, onCopied, notify }: NewPasswordProps) {
  const text = useRef<HTMLElement>(null)

  async function copy(): Promise<void> {
    try {
      await navigator.clipboard.writeText(password)
      onCopied()
      notify('Copied. The password is not shown again.')
    } catch {
      // Browsers have no clipboard for a page without TLS.
      getSelection()?.selectAllChildren(text.current as HTMLElement)
      notify('Copy the selected password with Ctrl+C or ⌘C.')
    }
  }

  return (
    <div class="notice" id="new-password" role="status">
      <p>
        The new password is set. It is shown only here:{' '}
        <code id="generated-password" ref={text}>
          {password}
        </code>
      </p>
      <button type="button" onClick={copy}>
        Copy and hide it
      </button>
    </div>
  )
}
